-- $1 now   $2 channel   $3 ids   $4 fences   $5 streams   $6 last numbers   $7 how many   $8 data
-- $9 sections   $10 since   $11 again   $12 whole   $13 closes   $14 keep
-- The lease is locked, so that no frame is written after the end of its attempt. A job gets its tie
-- with its first frames. Followers are told the ends of the ids.
with mine as materialized (
    select job_id, fence, ties from {{schema}}.lease
    where job_id = any (array(select * from unnest($3::uuid[])))
    order by job_id for no key update
),
kept as materialized (
    select given.*, mine.ties from unnest($3::uuid[], $4::bigint[], $5::text[], $6::int[], $7::int[],
        $8::text[], $9::text[], $10::int[], $11::bool[], $12::bool[], $13::bool[], $14::text[])
        as given (job_id, fence, stream, last, number, data, section, since, again, whole, closes, keep)
    join mine on mine.job_id = given.job_id and mine.fence = given.fence
),
tied as (
    update {{schema}}.lease set ties = ties | 32
    where job_id = any (array(select job_id from kept where ties & 32 = 0))
),
written as (
    insert into {{schema}}.frames
        (job_id, stream, fence, last, number, data, section, since, again, whole, closes, keep, at)
    select job_id, stream, fence, last, number, data, section, since, again, whole, closes, keep, {{now}}
    from kept where keep <> 'live' order by job_id, stream, last
    on conflict (job_id, stream, fence, last) do nothing
),
written_live as (
    insert into {{schema}}.live_frames
        (job_id, stream, fence, last, number, data, section, since, again, whole, closes, keep, at)
    select job_id, stream, fence, last, number, data, section, since, again, whole, closes, keep, {{now}}
    from kept where keep = 'live' order by job_id, stream, last
    on conflict (job_id, stream, fence, last) do nothing
),
told as (
    select count(pg_notify($2::text || '_streams', payload)) as calls
    from (
        select case when length(string_agg(distinct name, ',')) >= 7000
            then 'streams:' else 'streams:' || string_agg(distinct name, ',') end as payload
        from (select right(job_id::text, 8) as name from kept) as names
    ) as hints
    where payload is not null
)
select kept.job_id::text, kept.fence, told.calls from kept cross join told
