-- The places of jobs as the arms of a walk. A walk is put together of the arms whose states are
-- wanted: SQLite would read every row of an arm whose state does not fit. `unhappy` walks an index of
-- the outcomes that are no successes, `failed` one of the outcomes by fingerprint.

-- name: running
select job_id, 'running' as state, 0 as ended, queue, priority, task, attempts,
    worker_id, null as finished_at, null as reason
from holdfast_lease where {{span}}

-- name: scheduled
select job_id, 'scheduled' as state, 0 as ended, queue, priority, task, attempts,
    null as worker_id, null as finished_at, reason
from holdfast_scheduled where {{span}}

-- name: suspended
select job_id, 'suspended' as state, 0 as ended, queue, priority, task, attempts,
    null as worker_id, null as finished_at, reason
from holdfast_suspended where {{span}}

-- name: any other place
select job_id, '{{state}}' as state, 0 as ended, queue, priority, task, attempts,
    null as worker_id, null as finished_at, null as reason
from {{place}} where {{span}}

-- name: ended
select job_id, state, 1 as ended, queue, priority, task, attempts,
    worker_id, finished_at, reason
from holdfast_outcome where {{span}}

-- name: unhappy
select job_id, state, 1 as ended, queue, priority, task, attempts,
    worker_id, finished_at, reason
from holdfast_outcome where state <> 'succeeded' and {{span}}

-- name: failed
select job_id, state, 1 as ended, queue, priority, task, attempts,
    worker_id, finished_at, reason
from holdfast_outcome where fingerprint = :fingerprint and state = 'failed' and {{span}}

-- name: below the cursor
job_id < :cursor

-- name: among ids
job_id in (select value from json_each(:ids)) and job_id < :cursor
