-- $1 now   $2 channel   $3 ids
-- $4 how long to wait for a key that an open transaction holds (null: as the transaction does)
-- $5 who requeues
-- uses: is_undone unrecorded counted happened_waiting told woken
-- let gone: chosen
-- let what: 'requeued'
-- let by: $5::text
-- let due: null::timestamptz
-- let message: null::text
-- A job with a unique key must get its key back first; of two jobs with one key the first that is named
-- gets it. On a conflict the server shows the newest version of the key, but the statement's snapshot
-- decides where the holder is. So a key that changed hands since the snapshot is not taken, and its job
-- stays as it is.
-- A job that an open transaction has locked is passed by.
with bounded as materialized (
    select case when $4::text is not null then set_config('lock_timeout', $4::text, true) end
),
named as materialized (
    select job_id, min(n) as n from unnest($3::uuid[]) with ordinality as given (job_id, n)
    group by job_id
),
ended as materialized (
    select outcome.job_id, outcome.queue, outcome.priority, outcome.task, outcome.attempts,
        outcome.fence, outcome.ties, outcome.state
    from {{schema}}.outcome
    where outcome.job_id = any ($3::uuid[]) and outcome.ties & 1 = 0 -- no nodes
    and not ({{is_undone}})
    order by outcome.job_id for update skip locked
),
keyed as materialized (
    select distinct on (job.unique_key) ended.job_id, job.unique_key as key, job.unique_states
    from ended
    join named on named.job_id = ended.job_id
    join {{schema}}.job on job.id = ended.job_id
    where job.unique_key is not null
    order by job.unique_key, named.n
),
released as materialized (
    select held.key, held.job_id, held.epoch
    from keyed
    join {{schema}}.unique_key as held on held.key = keyed.key
    where held.job_id = keyed.job_id or not exists (
        select from {{schema}}.place
        where place.job_id = held.job_id
        and (place.state = any (held.states) or held.until > {{now}})
    )
),
taken as (
    insert into {{schema}}.unique_key as held (key, job_id, states)
    select key, job_id, unique_states from keyed
    where (select true from bounded)
    order by key
    on conflict (key) do update
    set job_id = excluded.job_id, states = excluded.states, epoch = held.epoch + 1,
        until = case when held.job_id = excluded.job_id then held.until end
    where exists (
        select from released
        where released.key = held.key and released.job_id = held.job_id
        and released.epoch = held.epoch
    )
    returning held.job_id
),
chosen as materialized (
    select ended.* from ended
    join {{schema}}.job on job.id = ended.job_id
    where job.unique_key is null or (ended.job_id in (select job_id from taken)) is true
),
gone as (
    delete from {{schema}}.outcome where job_id = any (array(select job_id from chosen))
    returning job_id
),
undated as (
    update {{schema}}.job set deadline_at = null
    where id = any (array(select job_id from chosen)) and deadline_at is not null
),
no_deadline as (
    delete from {{schema}}.deadline where job_id = any (array(select job_id from chosen))
),
to_ready as (
    insert into {{schema}}.ready (job_id, queue, priority, task, fence, ties, since)
    select job_id, queue, priority, task, fence, ties & ~224, {{now}}
    from chosen order by job_id
),
{{unrecorded}},
restarted as (
    -- the job of a plan is live again: its schedule has to find it among its unfinished jobs
    insert into {{schema}}.started as old (schedule, scope, at, job_id)
    select schedule, scope, at, job_id from {{schema}}.ledger
    where job_id = any (array(select job_id from chosen)) and job_id is not null
    order by schedule, scope, at
    on conflict (schedule, scope, at) do update set epoch = old.epoch + 1
),
counting as (
    select queue, task, state as source, 'ready' as target, 'requeued' as what from chosen
),
{{counted}},
told_of as (
    select * from chosen
),
{{happened_waiting}},
{{told}},
now_ready as (
    select queue from chosen
),
now_timed as (
    select where false
),
{{woken}}
select chosen.job_id, woken.calls from chosen cross join woken
