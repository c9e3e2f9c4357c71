-- $1 now   $2 channel   $3 queue   $4 its total (null: none)   $5 bucket of the total, which has a row
-- A total counts what runs already. Taken back it stays in the receipts, and ends are counted as ever.
with ruled as (
    insert into {{schema}}.limit_rule as known (name, settings, retired)
    values ($5::text, jsonb_build_object('kind', 'concurrency', 'most', coalesce($4::int, 0)), $4::int is null)
    on conflict (name) do update set settings = excluded.settings, retired = excluded.retired,
        revision = known.revision + 1
),
running as materialized (
    select job_id from {{schema}}.lease
    where $4::int is not null and queue = $3::text
    and not coalesce($5::text = any (string_to_array(buckets, E'\n')), false)
    order by job_id for update
),
receipts as (
    update {{schema}}.lease set buckets = concat_ws(E'\n', buckets, $5::text), costs = costs || ',1'
    where job_id = any (array(select job_id from running))
    returning job_id
),
counted as (
    update {{schema}}.bucket set in_use = in_use + (select count(*) from receipts), touched_at = {{now}}
    where name = $5::text
)
select pg_notify($2::text, 'ready:' || $3::text), pg_notify($2::text, 'fleet:' || $3::text)
