-- $1 now   $2 ids of live jobs, which are locked   $3 names   $4 values   $5 keys
-- $6 signals that a job may have   $7 bytes that those may take that no step has taken
-- $8 steps that must not have ended
-- Answers for each signal whether it fits, whether it is kept, and whether it is late. The key of a
-- duplicate is known; it is not late.
with given as materialized (
    select given.*, known.key is not null as known,
        known.key is null and ended.name is not null as late
    from unnest($2::uuid[], $3::text[], $4::text[], $5::text[], $8::text[]) with ordinality
        as given (job_id, name, value, key, before, place)
    left join {{schema}}.signal as known on known.job_id = given.job_id and known.key = given.key
    left join {{schema}}.step as ended on ended.job_id = given.job_id and ended.name = given.before
        and (ended.result is not null or (ended.kind is not null and ended.until is null))
),
had as materialized (
    select job_id, count(*) as number, max(n) as n,
        coalesce(sum(octet_length(value)) filter (where taken_by is null), 0) as size
    from {{schema}}.signal where job_id = any ($2::uuid[]) group by job_id
),
new as materialized (
    select given.*, coalesce(had.n, 0) + row_number() over earlier as n,
        coalesce(had.number, 0) + row_number() over earlier as number,
        coalesce(had.size, 0) + sum(octet_length(given.value)) over earlier as size
    from given
    left join had on had.job_id = given.job_id
    where not given.known and not given.late
    window earlier as (partition by given.job_id order by given.place)
),
kept as (
    insert into {{schema}}.signal (job_id, n, name, value, key, at)
    select job_id, n, name, value, key, {{now}} from new
    where number <= $6::int and size <= $7::bigint
    order by job_id, n
    on conflict (job_id, key) do nothing
    returning job_id, n
),
tied_ready as (
    update {{schema}}.ready set ties = ties | 32
    where job_id = any (array(select job_id from kept)) and ties & 32 = 0
),
tied_lease as (
    update {{schema}}.lease set ties = ties | 32
    where job_id = any (array(select job_id from kept)) and ties & 32 = 0
),
{{each unlined}}
tied_{{place}} as (
    update {{schema}}.{{place}} set ties = ties | 32
    where job_id = any (array(select job_id from kept)) and ties & 32 = 0
),
{{end}}
fits as (
    select place, job_id, n, number <= $6::int and size <= $7::bigint as whole from new
)
select fits.whole, kept.n is not null as kept, given.late
from given
left join fits on fits.place = given.place
left join kept on kept.job_id = fits.job_id and kept.n = fits.n
order by given.place
