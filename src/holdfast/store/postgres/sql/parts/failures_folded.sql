-- Empties `failing` into the failures and their samples. Expects `alone`. $3 limit
noticed as materialized (
    select ctid from {{schema}}.failing where (select is_so from alone) limit $3::int
),
seen as materialized (
    delete from {{schema}}.failing where ctid = any (array(select ctid from noticed))
    returning fingerprint, task, kind, times, at, job_id, attempt, message, traceback
),
to_failure as (
    insert into {{schema}}.failure as old (fingerprint, task, kind, times, first_at, last_at)
    select fingerprint, min(task), min(kind), sum(times), min(at), max(at) from seen
    group by fingerprint order by fingerprint
    on conflict (fingerprint) do update set times = old.times + excluded.times,
        first_at = least(old.first_at, excluded.first_at),
        last_at = greatest(old.last_at, excluded.last_at)
),
to_sample as (
    -- a row without texts makes a sample only where the sample that it relied on was pruned meanwhile
    insert into {{schema}}.failure_sample as old
        (fingerprint, at, job_id, attempt, message, traceback)
    select distinct on (fingerprint) fingerprint, at, job_id, attempt, coalesce(message, ''), traceback
    from seen
    order by fingerprint, message is null, at desc, job_id desc
    on conflict (fingerprint) do update set at = excluded.at, job_id = excluded.job_id,
        attempt = excluded.attempt, message = excluded.message, traceback = excluded.traceback
    where old.at <= excluded.at and excluded.message <> ''
)
