-- $1 flows, $2 their numbers of nodes; $3 nodes, $4 their flows, $5 what they carry, $6 for how many
-- edges they wait; $7 upstreams, $8 downstreams: of edges
with flows as (
    insert into flow (id, open) select * from unnest($1::bigint[], $2::int[])
),
given as materialized (
    select * from unnest($3::bigint[], $4::bigint[], $5::text[], $6::int[]) as given (id, flow_id, args, waits)
),
bodies as (
    insert into job (id, args) select id, args from given
),
nodes as (
    insert into node (id, flow_id) select id, flow_id from given
),
waiting as (
    insert into ready (id) select id from given where waits = 0
),
shut as (
    insert into blocked (id, waits) select id, waits from given where waits > 0
)
insert into edge (upstream, downstream) select * from unnest($7::bigint[], $8::bigint[])
