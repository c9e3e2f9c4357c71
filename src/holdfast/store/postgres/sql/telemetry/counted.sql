-- $1 minute
select minute as at, queue, task, what, jobs from {{schema}}.traffic
where minute = $1::timestamptz
order by queue, task
