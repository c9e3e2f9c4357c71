-- $1 now   $2 limit   $3 seconds that a failure is kept after it was seen   $4 how many are kept at most
-- A failure that was seen and is not folded yet stays.
with ranked as materialized (
    select fingerprint, last_at, coalesce(muted_until > {{now}}, false) or exists (
            select from {{schema}}.outcome
            where outcome.fingerprint = failure.fingerprint and outcome.state = 'failed'
        ) as matters,
        (select count(*) from {{schema}}.failure) - $4::int as too_many
    from {{schema}}.failure
    where fingerprint <> all (array(select fingerprint from {{schema}}.failing))
    and (last_at <= {{now}} - $3::float8 * interval '1 second'
        or (select count(*) from {{schema}}.failure) > $4::int)
),
numbered as (
    select *, row_number() over (order by matters, last_at, fingerprint) as n from ranked
),
over as materialized (
    select failure.fingerprint from {{schema}}.failure
    join (
        select fingerprint from numbered
        where n <= too_many
        or (not matters and last_at <= {{now}} - $3::float8 * interval '1 second')
        order by n limit $2::int
    ) as chosen on chosen.fingerprint = failure.fingerprint
    for update of failure skip locked
),
samples as (
    delete from {{schema}}.failure_sample
    where fingerprint = any (array(select fingerprint from over))
),
gone as (
    delete from {{schema}}.failure
    where fingerprint = any (array(select fingerprint from over)) returning 1
)
select count(*)::int from gone
