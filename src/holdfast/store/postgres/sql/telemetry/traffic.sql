-- $1 since   $2 until
select minute, queue, task, what, sum(jobs)::bigint as jobs
from (
    select minute, queue, task, what, jobs from {{schema}}.traffic
    union all
    select greatest(date_trunc('minute', at), (select closed from {{schema}}.rolling)), queue, task, what,
        jobs
    from {{schema}}.move
) as every_one
where minute >= $1::timestamptz and minute < $2::timestamptz
group by minute, queue, task, what
order by minute, queue, task, what
