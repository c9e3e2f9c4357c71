select name from holdfast_bucket
where (:limit_name is null or name >= :limit_name || ':' and name < :limit_name || ';')
    and (:after is null or name > :after)
order by name
limit :limit
