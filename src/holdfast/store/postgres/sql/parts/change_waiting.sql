-- Changes jobs in every place where a job can wait. Takes the words `ids`, `may` (a condition on the
-- narrow row) and `change`; gives `changed` (job_id, queue, priority, task, attempts, fence, place), as the jobs were before, and the rows that
-- `woken` expects. Queues of ready jobs are woken, because a claim passes by a row while it is being changed.
{{each waiting}}
of_{{place}} as materialized (
    -- locked, so that this is how the update finds them
    select job_id, queue, priority, task, attempts, fence from {{schema}}.{{place}}
    where job_id = any ({{ids}}) and {{may}} order by job_id for update
),
in_{{place}} as (
    update {{schema}}.{{place}} set {{change}}
    where job_id = any (array(select job_id from of_{{place}})) returning queue
),
{{end}}
changed as materialized (
    select null::uuid as job_id, null::text as queue, null::int as priority, null::text as task,
        null::int as attempts, null::bigint as fence, null::text as place
    where false
{{each waiting}}
    union all select job_id, queue, priority, task, attempts, fence, '{{place}}' from of_{{place}}
{{end}}
),
now_ready as (
    select queue from in_ready
),
now_timed as (
    select where false
)
