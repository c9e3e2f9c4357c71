with chosen as materialized (
    select *
    from holdfast_failure
    where (:fingerprints is null or fingerprint in (select value from json_each(:fingerprints)))
        and (:tasks is null or task in (select value from json_each(:tasks)))
        and (:since is null or last_at >= :since)
        and (:muted or muted_until is null or muted_until <= :now)
        and (:last_at is null or (last_at, fingerprint) < (:last_at, :fingerprint))
    order by last_at desc, fingerprint desc
    limit :limit
)
select
    f.fingerprint, f.task, f.kind, f.times, f.first_at, f.last_at, f.muted_until, f.note,
    s.at, s.job_id, s.attempt, s.message, s.traceback,
    (
        select count(*)
        from (
            select 1
            from holdfast_outcome
            where fingerprint = f.fingerprint and state = 'failed'
            limit :dead_counted
        )
    )
from chosen as f
cross join holdfast_failure_sample as s on s.fingerprint = f.fingerprint
order by f.last_at desc, f.fingerprint desc
