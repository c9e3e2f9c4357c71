-- Makes suspended jobs ready that a signal wakes, or an operator. Expects `met` (job_id, signal), and
-- takes the words `by` and `message`. Gives `gone` and `woken`.
gone as (
    delete from {{schema}}.suspended where job_id = any (array(select job_id from met))
    returning job_id, queue, priority, task, attempts, crashes, fence, ties
),
to_ready as (
    insert into {{schema}}.ready
        (job_id, queue, priority, task, attempts, crashes, fence, ties, since)
    select job_id, queue, priority, task, attempts, crashes, fence, ties, {{now}}
    from gone order by job_id
),
counting as (
    select queue, task, 'suspended' as source, 'ready' as target, 'resumed' as what from gone
),
{{counted}},
told_of as (
    select gone.job_id, gone.attempts, gone.fence, met.signal
    from gone join met on met.job_id = gone.job_id
),
{{happened_waiting}},
{{told}},
now_ready as (
    select queue from gone
),
now_timed as (
    select where false
),
{{woken}}
