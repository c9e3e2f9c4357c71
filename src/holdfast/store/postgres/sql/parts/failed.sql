-- Counts errors by their fingerprints. Expects `closed`, the jobs that were moved with their errors, and
-- {{sampled}}, the seconds that a sample is good for.
causes as materialized (
    select distinct on (fingerprint) fingerprint, task, kind, job_id, attempt, message, traceback,
        count(*) over (partition by fingerprint) as times
    from closed where fingerprint is not null
    order by fingerprint, job_id desc
),
failed as (
    insert into {{schema}}.failing
        (at, fingerprint, task, kind, times, job_id, attempt, message, traceback)
    select {{now}}, causes.fingerprint, task, kind, times, job_id, attempt,
        case when kept.is_so is null then message end,
        case when kept.is_so is null then traceback end
    from causes
    left join lateral (
        select true as is_so from {{schema}}.failure_sample
        where failure_sample.fingerprint = causes.fingerprint
        and failure_sample.at >= {{now}} - {{sampled}} * interval '1 second'
        limit 1
    ) as kept on true
)
