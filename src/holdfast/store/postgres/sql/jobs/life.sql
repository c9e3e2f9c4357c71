-- $1 ids
-- A time beyond the driver's calendar is answered as the calendar's end, as in get.sql.
select told.job_id, told.at, told.what, told.attempt, told.fence, told.worker_id, told.claimed_at,
    case when told.due_at > {{calendar_end}} then {{calendar_end}} else told.due_at end as due_at,
    told.by, told.kind, told.message, told.traceback, told.fingerprint
from unnest($1::uuid[]) as asked (id)
cross join lateral (
    select * from {{schema}}.happening where happening.job_id = asked.id order by n limit {{life_kept}}
) as told
order by told.job_id, told.n
