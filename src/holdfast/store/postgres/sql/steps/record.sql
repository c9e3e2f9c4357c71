-- $1 now   $2 ids   $3 fences   $4 names   $5 numbers   $6 tries   $7 results   $8 kinds of errors
-- $9 messages   $10 versions   $11 seconds to wait   $12 signals that are waited for
-- $13 tasks that undo them
-- One record for each name of an attempt; of the attempts of a job only the current one has a lease.
-- The lease is locked, so that no step is written after the end of its attempt. A job gets its tie
-- with its first record.
with mine as materialized (
    select job_id, fence, ties from {{schema}}.lease
    where job_id = any (array(select * from unnest($2::uuid[])))
    order by job_id for no key update
),
kept as materialized (
    select given.*, mine.ties from unnest($2::uuid[], $3::bigint[], $4::text[], $5::int[], $6::int[],
        $7::text[], $8::text[], $9::text[], $10::text[], $11::float8[], $12::text[], $13::text[])
        as given (job_id, fence, name, n, tries, result, kind, message, version, seconds, awaits, undo)
    join mine on mine.job_id = given.job_id and mine.fence = given.fence
),
tied as (
    update {{schema}}.lease set ties = ties | 32 | case
        when job_id = any (array(select job_id from kept where undo is not null)) then 64 else 0 end
    where job_id = any (array(
        select job_id from kept where ties & 32 = 0 or (undo is not null and ties & 64 = 0)))
),
written as (
    insert into {{schema}}.step as old
        (job_id, name, n, fence, tries, result, kind, message, version, until, at, awaits, undo)
    select job_id, name, n, fence, tries, result, kind, message, version,
        {{now}} + seconds * interval '1 second', {{now}}, awaits, undo
    from kept order by job_id, name
    on conflict (job_id, name) do update
    set n = excluded.n, fence = excluded.fence, tries = excluded.tries, result = excluded.result,
        kind = excluded.kind, message = excluded.message, version = excluded.version,
        until = excluded.until, at = excluded.at, awaits = excluded.awaits,
        undo = excluded.undo
    where old.fence < excluded.fence
)
select job_id, fence from kept
