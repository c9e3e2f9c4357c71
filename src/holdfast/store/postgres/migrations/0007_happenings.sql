-- The life of a job: a row for everything unusual that happened to it. A plain enqueue, claim and
-- success write none. A row with a `kind` tells of an error.

-- `n` is an order, no number: a number of its own for each job would have to be read first, and two
-- transactions could read the same. `attempt`, `fence` and `worker_id` are those of the attempt that was
-- under way; `claimed_at` is when it began, and `due_at` when the job was to go on.
create table {{schema}}.happening (
    job_id uuid not null,
    n bigint generated always as identity,
    at timestamptz not null,
    fence bigint not null,
    claimed_at timestamptz,
    due_at timestamptz,
    worker_id uuid,
    attempt int not null,
    what text collate "C" not null,
    by text,
    kind text,
    message text,
    traceback text,
    fingerprint text collate "C",
    primary key (job_id, n)
);

-- The errors that were kept before; their fences were not.
insert into {{schema}}.happening (job_id, at, fence, attempt, what, kind, message, traceback)
select job_id, at, 0, attempt,
    case when n = max(n) over (partition by job_id) and exists (
            select from {{schema}}.outcome
            where outcome.job_id = error.job_id and outcome.state = 'failed'
        ) then 'failed'
        when kind = 'TimedOut' then 'timed_out'
        when kind = 'WorkerLost' then 'lost'
        else 'retried' end,
    kind, message, traceback
from {{schema}}.error
order by n;

drop table {{schema}}.error;

-- Who held the job when it ended, and the fingerprint of the error that ended it.
alter table {{schema}}.outcome
    add column worker_id uuid,
    add column fingerprint text collate "C";

create or replace view {{schema}}.place as
    select job_id, 'ready'::text as state, queue, priority, task, attempts, crashes, fence, ties,
        null::timestamptz as due_at, null::uuid as worker_id, null::timestamptz as claimed_at,
        null::timestamptz as cancel_requested_at, null::timestamptz as finished_at,
        null::timestamptz as expires_at, null::text as result, null::text as reason,
        false as ended, false as ahead, since, null::text collate "C" as fingerprint
    from {{schema}}.ready
    union all
    select job_id, 'running'::text, queue, priority, task, attempts, crashes, fence, ties,
        null::timestamptz, worker_id, claimed_at, cancel_requested_at, null::timestamptz,
        null::timestamptz, null::text, null::text, false, ahead, null::timestamptz, null::text
    from {{schema}}.lease
    union all
    select job_id, 'scheduled'::text, queue, priority, task, attempts, crashes, fence, ties,
        due_at, null::uuid, null::timestamptz, null::timestamptz, null::timestamptz,
        null::timestamptz, null::text, reason, false, false, null::timestamptz, null::text
    from {{schema}}.scheduled
    union all
    select job_id, 'suspended'::text, queue, priority, task, attempts, crashes, fence, ties,
        wake_at, null::uuid, null::timestamptz, null::timestamptz, null::timestamptz,
        null::timestamptz, null::text, reason, false, false, null::timestamptz, null::text
    from {{schema}}.suspended
    union all
    select job_id, 'blocked'::text, queue, priority, task, attempts, crashes, fence, ties,
        null::timestamptz, null::uuid, null::timestamptz, null::timestamptz, null::timestamptz,
        null::timestamptz, null::text, null::text, false, false, null::timestamptz, null::text
    from {{schema}}.blocked
    union all
    select job_id, state, queue, priority, task, attempts, crashes, fence, ties,
        null::timestamptz, worker_id, claimed_at, null::timestamptz, finished_at,
        expires_at, result, reason, true, false, null::timestamptz, fingerprint
    from {{schema}}.outcome;
