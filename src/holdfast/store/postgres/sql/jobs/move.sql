-- $1 channel   $2 ids   $3 queue
-- uses: change_waiting
-- let ids: $2::uuid[]
-- let change: queue = $3::text
with {{change_waiting}},
woken as (
    select count(pg_notify($1::text, 'ready:' || $3::text)) as calls
    from (select from in_ready limit 1) as any_ready
)
select changed.job_id, woken.calls from changed cross join woken
