-- Tells what happened to jobs, and forgets what is more than a life keeps. Expects `happened` (job_id,
-- fence, claimed_at, due_at, worker_id, attempt, what, by, kind, message, traceback, fingerprint), at
-- most one row a job. Errors and other happenings are counted apart: many of one kind push out none of
-- the other.
told as (
    insert into {{schema}}.happening (job_id, at, fence, claimed_at, due_at, worker_id, attempt, what,
        by, kind, message, traceback, fingerprint)
    select job_id, {{now}}, fence, claimed_at, due_at, worker_id, attempt, what, by, kind, message,
        traceback, fingerprint
    from happened
),
forgotten as (
    -- the snapshot does not hold the row just added, so one fewer of the newest old rows may stay
    delete from {{schema}}.happening
    where ctid = any (array(
        select old.ctid
        from happened
        cross join lateral (
            select older.ctid, row_number() over (order by older.n) as oldest,
                row_number() over (order by older.n desc) as newest
            from {{schema}}.happening as older
            where older.job_id = happened.job_id
            and (older.kind is null) = (happened.kind is null)
        ) as old
        where case when happened.kind is null
            then old.newest >= {{newest_kept}} and old.oldest > {{first_kept}}
            else old.newest >= {{errors_kept}} end
    ))
)
