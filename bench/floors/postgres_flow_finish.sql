-- $1 nodes. Their flows are locked.
with closed as (
    delete from lease where id = any ($1::bigint[]) returning id, claimed_at
),
written as (
    insert into outcome (id, claimed_at, finished_at) select id, claimed_at, now() from closed
),
taken as (
    delete from edge where upstream = any ($1::bigint[]) returning downstream
),
counts as materialized (
    select downstream as id, count(*) as edges from taken group by downstream
),
freed as (
    delete from blocked using counts
    where blocked.id = any (array(select id from counts)) and blocked.id = counts.id
    and blocked.waits = counts.edges
    returning blocked.id
),
fewer as (
    update blocked set waits = waits - counts.edges from counts
    where blocked.id = any (array(select id from counts)) and blocked.id = counts.id
    and blocked.waits > counts.edges
),
lined as (
    insert into ready (id) select id from freed
),
ended as materialized (
    select flow_id, count(*) as nodes from node where id = any ($1::bigint[]) group by flow_id
)
update flow set open = open - ended.nodes from ended
where flow.id = any (array(select flow_id from ended)) and flow.id = ended.flow_id
