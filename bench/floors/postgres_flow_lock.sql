-- $1 nodes. A statement of its own: the next one sees what was committed before the locks were got.
select id from flow where id = any (array(select flow_id from node where id = any ($1::bigint[])))
order by id for update
