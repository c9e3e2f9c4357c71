-- Ends leases with successes. Expects the parameters of finish_succeeded.sql, and two words: `closed`, the columns
-- of a lease that are asked for, and `guard`, which leases are ended. Gives `ended`, whose `job_id` is null where the
-- success was refused, and the rows that `counted` expects.
bounded as materialized (
    select case when $6::text is not null then set_config('lock_timeout', $6::text, true) end
),
closed as (
    -- by key, not by ctid: a cancel request may move the row meanwhile, and the success stands.
    -- The array is made by a subquery, so that no length of it makes the planner scan all leases.
    -- The guard: an old fence deletes nothing; "is true" keeps it a hashed lookup
    delete from {{schema}}.lease
    where job_id = any (array(select * from unnest($2::uuid[])))
    and ((job_id, fence) in (select * from unnest($2::uuid[], $3::bigint[]))) is true
    and (select true from bounded) and {{guard}}
    returning {{closed}}
),
ended as materialized (
    -- a full join can only be hashed or merged, so no estimate makes it a loop in a loop
    select asked.job_id as asked_id, asked.result, asked.keep, closed.*
    from unnest($2::uuid[], $4::text[], $5::float8[]) as asked (job_id, result, keep)
    full join closed on closed.job_id = asked.job_id
),
tuned as materialized (
    select name, (settings ->> 'retain_succeeded')::float8 as kept
    from {{schema}}.queue where settings ? 'retain_succeeded'
),
written as (
    insert into {{schema}}.outcome (job_id, state, queue, priority, task, attempts, crashes, fence,
        ties, claimed_at, worker_id, finished_at, expires_at, result)
    select job_id, 'succeeded', queue, priority, task, attempts + 1, crashes, fence, ties,
        claimed_at, worker_id, {{now}}, {{now}} + interval '1 second'
            * coalesce((select kept from tuned where tuned.name = ended.queue), keep),
        result
    from ended
    where job_id is not null
),
counting as (
    select queue, task, 'running' as source, 'succeeded' as target, 'succeeded' as what
    from ended
    where job_id is not null
)
