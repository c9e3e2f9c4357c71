-- $1 now   $2 channel   $3 ids
with moved as materialized (
    select job_id from {{schema}}.suspended
    where job_id = any ($3::uuid[])
    order by job_id for update
),
gone as (
    delete from {{schema}}.suspended where job_id = any (array(select job_id from moved))
    returning job_id, queue, priority, task, attempts, crashes, fence
),
to_ready as (
    insert into {{schema}}.ready (job_id, queue, priority, task, attempts, crashes, fence, since)
    select job_id, queue, priority, task, attempts, crashes, fence, coalesce($1::timestamptz, now())
    from gone order by job_id
),
woken as (
    select count(pg_notify($2::text || few, payload)) as calls
    from (
        select case when length(string_agg(distinct queue, ',')) >= 2000
            then 'ready:' else 'ready:' || string_agg(distinct queue, ',')
                || case when count(*) <= 8 and min(queue) = max(queue) then '=' || count(*) else '' end
            end as payload,
            case when count(*) <= 8 and min(queue) = max(queue) then '_few' else '' end as few
        from gone
    ) as hints
    where payload is not null
)
select gone.job_id, woken.calls from gone cross join woken
