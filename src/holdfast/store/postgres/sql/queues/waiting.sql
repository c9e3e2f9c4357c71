-- One step of the index for each queue, however many jobs wait in it.
with recursive waiting (queue) as (
    (select queue from {{schema}}.ready order by queue limit 1)
    union all
    select (select ready.queue from {{schema}}.ready where ready.queue > waiting.queue
            order by ready.queue limit 1)
    from waiting where waiting.queue is not null
)
select queue from waiting where queue is not null order by queue
