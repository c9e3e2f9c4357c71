-- One step of the index for each queue, however many jobs wait in it.
with recursive waiting (queue) as (
    (select queue from {{schema}}.ready_plain order by queue limit 1)
    union all
    select (select ready.queue from {{schema}}.ready_plain as ready
            where ready.queue > waiting.queue order by ready.queue limit 1)
    from waiting where waiting.queue is not null
),
limited (queue) as (
    (select queue from {{schema}}.ready_limited order by queue limit 1)
    union all
    select (select ready.queue from {{schema}}.ready_limited as ready
            where ready.queue > limited.queue order by ready.queue limit 1)
    from limited where limited.queue is not null
)
select queue from waiting where queue is not null
union
select queue from limited where queue is not null
order by queue
