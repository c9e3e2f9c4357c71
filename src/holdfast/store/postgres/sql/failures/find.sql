-- $1 now   $2 fingerprints   $3 tasks   $4 seen since (each null: any)   $5 with those that are muted
-- $6 limit   $7 behind the failure that was last seen at   $8 and has this fingerprint
-- $9 how many dead jobs are counted
-- uses: failures
with {{failures}},
chosen as materialized (
    select * from failures
    where ($2::text[] is null or fingerprint = any ($2::text[]))
    and ($3::text[] is null or task = any ($3::text[]))
    and ($4::timestamptz is null or last_at >= $4::timestamptz)
    and ($5::boolean or (muted_until > {{now}}) is not true)
    and ($7::timestamptz is null or (last_at, fingerprint) < ($7::timestamptz, $8::text collate "C"))
    order by last_at desc, fingerprint desc
    limit $6::int
),
samples as materialized (
    select distinct on (fingerprint) * from (
        select fingerprint, at, job_id, attempt, message, traceback from {{schema}}.failure_sample
        where fingerprint = any (array(select fingerprint from chosen))
        union all
        select fingerprint, at, job_id, attempt, message, traceback from {{schema}}.failing
        where fingerprint = any (array(select fingerprint from chosen))
    ) as every_one
    order by fingerprint, message is null, at desc, job_id desc
)
select chosen.fingerprint, chosen.task, chosen.kind, chosen.times, chosen.first_at, chosen.last_at,
    chosen.muted_until, chosen.note, samples.at as sampled_at, samples.job_id, samples.attempt,
    coalesce(samples.message, '') as message, samples.traceback, dead.jobs as dead
from chosen join samples on samples.fingerprint = chosen.fingerprint
cross join lateral (
    select count(*)::int as jobs from (
        select from {{schema}}.outcome
        where outcome.fingerprint = chosen.fingerprint and outcome.state = 'failed'
        limit $9::int
    ) as found
) as dead
order by chosen.last_at desc, chosen.fingerprint desc
