select parent, id from holdfast_flow
where parent in (select value from json_each(?))
order by id
