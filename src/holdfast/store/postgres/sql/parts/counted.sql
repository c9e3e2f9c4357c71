-- Counts moves for the books. Expects `counting` (queue, task, source, target, what), a row for each
-- job.
counted as (
    insert into {{schema}}.move (at, queue, task, source, target, what, jobs)
    select {{now}}, queue, task, source, target, what, count(*)
    from counting group by queue, task, source, target, what
)
