-- $1 now   $2 channel   $3 ids
-- Of several requests the time of the first is kept. The worker is woken as for a cancel: both are
-- said by the answer to a beat.
with found as materialized (
    select id from {{schema}}.worker where id = any ($3::uuid[]) order by id for update
),
marked as (
    update {{schema}}.worker
    set drain_requested_at = coalesce(drain_requested_at, {{now}})
    where id = any (array(select id from found))
    returning id
),
counted as (
    insert into {{schema}}.counter as kept (topic, name)
    select 'cancel', id::text from marked order by id::text
    on conflict (topic, name) do update set n = kept.n + 1
),
woken as (
    select count(pg_notify($2::text, 'cancel:' || id)) + count(pg_notify($2::text, 'fleet:')) as calls
    from marked
)
select marked.id, woken.calls from marked cross join woken
