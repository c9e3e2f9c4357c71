-- Makes jobs ready whose time has come. Takes the words `of_scheduled` and `of_suspended`, which say
-- which rows of the two tables those are. Gives `moved`.
from_scheduled as (
    delete from {{schema}}.scheduled
    where {{of_scheduled}}
    returning job_id, queue, priority, task, attempts, crashes, fence, ties, due_at,
        'scheduled' as source
),
from_suspended as (
    delete from {{schema}}.suspended
    where {{of_suspended}}
    returning job_id, queue, priority, task, attempts, crashes, fence, ties, wake_at, 'suspended'
),
moved as materialized (
    select * from from_scheduled union all select * from from_suspended
),
to_ready as (
    insert into {{schema}}.ready
        (job_id, queue, priority, task, attempts, crashes, fence, ties, since)
    select job_id, queue, priority, task, attempts, crashes, fence, ties, {{now}}
    from moved order by due_at, job_id
),
counting as (
    select queue, task, source, 'ready' as target, 'promoted' as what from moved
),
{{counted}}
