-- $1 now   $2 id   $3 fence   $4 name   $5 number   $6 tries   $7 result   $8 kind of error
-- $9 message   $10 version   $11 seconds to wait   $12 signal that is waited for   $13 task that undoes it
-- One record as `steps/record` writes it. Its values come one by one: lists of one cost the server as much
-- again as all the rest.
with mine as materialized (
    select job_id, ties, 32 | case when $13::text is null then 0 else 64 end as wanted
    from {{schema}}.lease
    where job_id = $2::uuid and fence = $3::bigint
    for no key update
),
tied as (
    update {{schema}}.lease set ties = lease.ties | mine.wanted
    from mine
    where lease.job_id = mine.job_id and mine.ties & mine.wanted <> mine.wanted
),
written as (
    insert into {{schema}}.step as old
        (job_id, name, n, fence, tries, result, kind, message, version, until, at, awaits, undo)
    select job_id, $4::text, $5::int, $3::bigint, $6::int, $7::text, $8::text, $9::text, $10::text,
        {{now}} + $11::float8 * interval '1 second', {{now}}, $12::text, $13::text
    from mine
    on conflict (job_id, name) do update
    set n = excluded.n, fence = excluded.fence, tries = excluded.tries, result = excluded.result,
        kind = excluded.kind, message = excluded.message, version = excluded.version,
        until = excluded.until, at = excluded.at, awaits = excluded.awaits,
        undo = excluded.undo
    where old.fence < excluded.fence
)
select from mine
