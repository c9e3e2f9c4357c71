-- The life of a job: a row for everything unusual that happened to it. A plain enqueue, claim and
-- success write none. A row with a `kind` tells of an error.

-- `attempt`, `fence` and `worker_id` are those of the attempt that was under way; `claimed_at` is when
-- it began, and `due_at` when the job was to go on. Long texts come last.
create table holdfast_happening (
    job_id text not null,
    n integer not null,
    at integer not null,
    what text not null,
    attempt integer not null,
    fence integer not null,
    worker_id text,
    claimed_at integer,
    due_at integer,
    "by" text,
    kind text,
    fingerprint text,
    message text,
    traceback text,
    primary key (job_id, n)
) without rowid;

-- The errors that were kept before; their fences were not.
insert into holdfast_happening (job_id, n, at, what, attempt, fence, kind, message, traceback)
select
    e.job_id, e.n, e.at,
    case
        when e.n = max(e.n) over (partition by e.job_id) and o.state = 'failed' then 'failed'
        when e.kind = 'TimedOut' then 'timed_out'
        when e.kind = 'WorkerLost' then 'lost'
        else 'retried'
    end,
    e.attempt, 0, e.kind, e.message, e.traceback
from holdfast_error as e
left join holdfast_outcome as o on o.job_id = e.job_id;

drop table holdfast_error;

-- The fingerprint of the error that ended the job.
alter table holdfast_outcome add column fingerprint text;
