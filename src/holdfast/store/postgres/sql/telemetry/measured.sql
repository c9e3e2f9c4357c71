-- $1 minute
select minute as at, queue, task, times from {{schema}}.measure
where minute = $1::timestamptz
order by queue, task
