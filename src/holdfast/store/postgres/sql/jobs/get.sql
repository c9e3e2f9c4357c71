-- $1 ids   $2 how many of the newest errors
-- A time beyond the driver's calendar, such as infinity, is answered as the calendar's end: the driver
-- could not read an answer with one such row.
select job.id, job.task, place.queue, place.state, place.priority, {{body_of_job}},
    job.created_at, place.attempts, place.crashes, place.fence, place.ties, job.unique_key,
    case when job.deadline_at > {{calendar_end}} then {{calendar_end}} else job.deadline_at end
        as deadline_at,
    case when place.due_at > {{calendar_end}} then {{calendar_end}} else place.due_at end as due_at,
    place.worker_id, place.claimed_at,
    place.cancel_requested_at, place.finished_at, place.expires_at, place.result, place.reason,
    progress.fraction, progress.message, progress.checkpoint, progress.at as progress_at,
    history.errors
from unnest($1::uuid[]) as asked (id)
cross join lateral (
    select * from {{schema}}.job where job.id = asked.id limit 1
) as job
cross join lateral (
    select * from {{schema}}.place where place.job_id = asked.id limit 1
) as place
left join lateral (
    select fraction, message, checkpoint, at from {{schema}}.progress
    where progress.job_id = asked.id limit 1
) as progress on true
cross join lateral (
    select json_agg(json_build_object('attempt', attempt, 'kind', kind, 'message', message,
        'traceback', traceback, 'fingerprint', fingerprint,
        'at', to_char(at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')) order by n)::text
        as errors
    from (
        select * from {{schema}}.happening
        where happening.job_id = asked.id and kind is not null order by n desc limit $2::int
    ) as newest
) as history
