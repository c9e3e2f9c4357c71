-- One step of the index for each queue, however many jobs wait in it.
with recursive waiting (queue) as (
    select min(queue) from holdfast_ready
    union all
    select (select min(queue) from holdfast_ready where queue > waiting.queue)
    from waiting where waiting.queue is not null
)
select queue from waiting where queue is not null
