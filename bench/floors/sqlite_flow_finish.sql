-- name: end
insert into outcome (id, claimed_at, finished_at)
select id, claimed_at, ? from lease where id in (select value from json_each(?))
-- name: leave
delete from lease where id in (select value from json_each(?))
-- name: take
delete from edge where upstream in (select value from json_each(?)) returning downstream
-- name: count
update blocked set waits = waits - ? where id = ?
-- name: free
delete from blocked where waits = 0 and id in (select value from json_each(?)) returning id
-- name: line up
insert into ready (id) values (?)
-- name: flows
update flow set open = open - ended.nodes
from (
    select flow_id, count(*) as nodes from node where id in (select value from json_each(?)) group by flow_id
) as ended
where flow.id = ended.flow_id
