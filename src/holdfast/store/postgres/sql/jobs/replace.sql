-- $1 now   $2 holders, in order of their ids   $3 why each of them ends   $4 seconds to keep
-- let ended: out_of_waiting
-- let end_state: 'cancelled'
-- uses: from_waiting to_undo retention_of_policy counted happened_waiting told
-- let what: 'cancelled'
-- let by: null::text
-- let due: null::timestamptz
-- let message: why
-- let otherwise: $4::float8
-- Ends waiting holders as cancelled and gives up their keys. A holder that runs by now is left alone.
with leaving as materialized (
    select job_id, why from unnest($2::uuid[], $3::text[]) as given (job_id, why)
),
{{from_waiting}},
to_outcome as (
    insert into {{schema}}.outcome (job_id, state, queue, priority, task, attempts, crashes, fence,
        ties, finished_at, expires_at, reason)
    select gone.job_id, 'cancelled', gone.queue, gone.priority, gone.task, gone.attempts,
        gone.crashes, gone.fence, gone.ties, {{now}},
        {{now}} + interval '1 second' * coalesce(
            (select (settings ->> {{cancelled_retained_by}})::float8 from {{schema}}.queue where queue.name = gone.queue),
            {{retention_of_policy}}
        ),
        leaving.why
    from out_of_waiting as gone
    join leaving on leaving.job_id = gone.job_id
    join {{schema}}.job on job.id = gone.job_id
),
{{to_undo}},
counting as (
    select queue, task, source, 'cancelled' as target, 'cancelled' as what from out_of_waiting
),
{{counted}},
told_of as (
    select gone.job_id, gone.attempts, gone.fence, leaving.why
    from out_of_waiting as gone join leaving on leaving.job_id = gone.job_id
),
{{happened_waiting}},
{{told}},
freed as (
    delete from {{schema}}.unique_key
    using out_of_waiting as gone join {{schema}}.job on job.id = gone.job_id
    where unique_key.key = job.unique_key and unique_key.job_id = gone.job_id
)
select job_id::text, ties from out_of_waiting
