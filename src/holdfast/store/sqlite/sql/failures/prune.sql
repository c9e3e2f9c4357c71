-- name: over
with ranked as (
    select
        fingerprint, last_at,
        coalesce(muted_until > :now, 0) or exists (
            select 1 from holdfast_outcome as o
            where o.fingerprint = f.fingerprint and o.state = 'failed'
        ) as matters
    from holdfast_failure as f
    where last_at <= :kept_since or (select count(*) from holdfast_failure) > :most
),
numbered as (
    select *, row_number() over (order by matters, last_at, fingerprint) as n
    from ranked
)
select fingerprint
from numbered
where n <= (select count(*) from holdfast_failure) - :most
    or (not matters and last_at <= :kept_since)
order by n
limit :limit

-- name: failure
delete from holdfast_failure where fingerprint = ?

-- name: sample
delete from holdfast_failure_sample where fingerprint = ?
