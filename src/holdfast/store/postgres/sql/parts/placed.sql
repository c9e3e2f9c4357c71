-- Puts new jobs in their places. Expects `new`, the jobs that were given, and `body` (id), those of
-- them whose body was written by this statement.
created as materialized (
    -- "is true" keeps the subquery a hashed lookup; as a join it could become a loop in a loop
    select *, case when blocked then 'blocked' when due_at > {{now}} then 'scheduled'
        else 'ready' end as place
    from new where (id in (select id from body)) is true
),
to_ready as (
    insert into {{schema}}.ready (job_id, queue, priority, task, ties, since)
    select id, queue, priority, task, ties, {{now}} from created where place = 'ready' order by n
),
to_scheduled as (
    insert into {{schema}}.scheduled (job_id, due_at, queue, priority, task, ties)
    select id, due_at, queue, priority, task, ties from created where place = 'scheduled'
),
to_blocked as (
    insert into {{schema}}.blocked (job_id, queue, priority, task, ties)
    select id, queue, priority, task, ties from created where place = 'blocked'
),
to_deadline as (
    insert into {{schema}}.deadline (job_id, at)
    select id, deadline_at from created where deadline_at is not null
),
counting as (
    select queue, task, '' as source, place as target, 'enqueued' as what from created
),
{{counted}},
now_ready as (
    select queue from created where place = 'ready'
),
now_timed as (
    select from created where place = 'scheduled' or deadline_at is not null
)
