-- $1 now   $2 channel   $3 limit
-- $4 due time and $5 id of the last scheduled job that this sweep has moved, $6 and $7 of the last
-- suspended one. Null: from the head. While an old snapshot is open, the index keeps the rows that this
-- sweep has moved; they are not passed over again.
-- uses: promoted counted
-- let of_scheduled: job_id = any (array(select job_id from first where not was_suspended))
-- let of_suspended: job_id = any (array(select job_id from first where was_suspended))
-- Due rows that another promoter is moving right now are skipped: that promoter will move them.
with due_scheduled as materialized (
    select job_id, due_at, false as was_suspended from {{schema}}.scheduled
    where due_at <= {{now}}
    and (due_at, job_id) > (coalesce($4::timestamptz, '-infinity'),
        coalesce($5::uuid, '00000000-0000-0000-0000-000000000000'))
    order by due_at, job_id limit $3::int
    for update skip locked
),
due_suspended as materialized (
    select job_id, wake_at, true from {{schema}}.suspended
    where wake_at <= {{now}}
    and (wake_at, job_id) > (coalesce($6::timestamptz, '-infinity'),
        coalesce($7::uuid, '00000000-0000-0000-0000-000000000000'))
    order by wake_at, job_id limit $3::int
    for update skip locked
),
due as (
    select * from due_scheduled union all select * from due_suspended
),
first as materialized (
    select * from due order by due_at, job_id limit $3::int
),
{{promoted}},
summed as materialized (
    select count(*)::int as moved, coalesce(array_agg(distinct queue), '{}') as queues from moved
)
select summed.moved, summed.queues,
    case when summed.moved >= $3::int then 0 else extract(epoch from least(
        (select due_at from {{schema}}.scheduled
         where due_at > {{now}} and due_at < 'infinity'
         order by due_at limit 1),
        (select wake_at from {{schema}}.suspended
         where wake_at > {{now}} and wake_at < 'infinity'
         order by wake_at limit 1)
    ) - {{now}})::float8 end as next_due_in,
    case when summed.moved > 0 then pg_notify($2::text || case when summed.moved = 1 then '_few' else '' end,
        case when length(array_to_string(queues, ',')) < 2000
        then 'ready:' || array_to_string(queues, ',') || case when summed.moved = 1 then '=1' else '' end
        else 'ready:' end) end as woken,
    scheduled.due_at as scheduled_due_at, scheduled.job_id::text as scheduled_id,
    suspended.due_at as suspended_due_at, suspended.job_id::text as suspended_id
from summed
left join (
    select due_at, job_id from first where not was_suspended order by due_at desc, job_id desc limit 1
) as scheduled on true
left join (
    select due_at, job_id from first where was_suspended order by due_at desc, job_id desc limit 1
) as suspended on true
