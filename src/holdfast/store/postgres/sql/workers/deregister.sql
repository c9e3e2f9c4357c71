-- $1 worker   $2 its last facts, or null for those of its last beat   $3 channel
with gone as (
    delete from {{schema}}.worker where id = $1::uuid returning coalesce($2::text, facts) as facts
),
kept as (
    insert into {{schema}}.worker_count as sums (name, n)
    select counted.key, counted.value::bigint
    from gone cross join lateral json_each_text(facts::json -> 'counts') as counted
    order by counted.key collate "C"
    on conflict (name) do update set n = sums.n + excluded.n
),
uncounted as (
    delete from {{schema}}.counter where topic = 'cancel' and name = $1::uuid::text
),
dethroned as (
    delete from {{schema}}.leader where worker_id = $1::uuid
)
select pg_notify($3::text, 'fleet:') from gone
