-- $1 now   $2 channel   $3 flow   $4 who adds, $5 its fence   $6 graph   $7 ids, with commas between them
-- $8 arguments, as a JSON list
-- $9 name of the map   $10 index of the first element   $11 task   $12 queue   $13 priority   $14 timeout
-- $15 ties   $16 whether sinks   $17 nodes that wait for all of them, $18 which ends win there
-- and the columns of the body that jobs of one kind share
-- uses: counted woken
-- Elements of a map: what graphs.py writes for as many nodes, without a column for what all of them share.
-- Answers what became of the growth.
with allowed as materialized (
    select * from {{schema}}.grow_by_elements($3::uuid, $4::uuid, $5::bigint, split_part($7::text, ',', 1)::uuid,
        json_array_length($8::json), $17::uuid[], $6::text)
),
new as materialized (
    select given.id, given.args, $9::text || '[' || $10::int + given.n - 1 || ']' as name
    from allowed
    cross join rows from (
        unnest(string_to_array($7::text, ',')::uuid[]), json_array_elements_text($8::json)
    ) with ordinality as given (id, args, n)
    where allowed.answer = 'grown'
),
body as (
    insert into {{schema}}.job (id, task, args, {{shared}}, timeout, created_at)
    select id, $11::text, args, {{shared_values}}, $14::float8, {{now}} from new
),
to_ready as (
    insert into {{schema}}.ready (job_id, queue, priority, task, ties, since)
    select id, $12::text, $13::int, $11::text, $15::smallint, {{now}} from new
),
nodes as (
    insert into {{schema}}.node (flow_id, job_id, name, is_sink, behind, wants)
    select $3::uuid, id, name, $16::boolean, nullif($17::uuid[], '{}'),
        (select array_agg(32 * gate + wants order by place)
            from allowed cross join unnest($18::int[]) with ordinality as given (wants, place))
    from new
),
counting as (
    select $12::text as queue, $11::text as task, '' as source, 'ready' as target, 'enqueued' as what
    from new
),
{{counted}},
now_ready as (
    select $12::text as queue from new
),
now_timed as (
    select where false
),
{{woken}}
select allowed.answer, woken.calls from allowed cross join woken
