-- One step of the index for each queue, however many jobs wait in it.
with recursive waiting (queue) as (
    select min(queue) from holdfast_ready where line = 0
    union all
    select (select min(queue) from holdfast_ready where line = 0 and queue > waiting.queue)
    from waiting where waiting.queue is not null
),
limited (queue) as (
    select min(queue) from holdfast_line
    union all
    select (select min(queue) from holdfast_line where queue > limited.queue)
    from limited where limited.queue is not null
)
select queue from waiting where queue is not null
union
select queue from limited
where exists (
    select 1 from holdfast_line as l cross join holdfast_ready as r on r.line = l.id
    where l.queue = limited.queue
)
order by queue
