-- $1 job ids
select asked.job_id::text, first.job_id::text as first
from {{schema}}.ready_limited as asked
cross join lateral (
    select ready.job_id from {{schema}}.ready_limited as ready
    where ready.queue = asked.queue and ready.priority = asked.priority and ready.task = asked.task
    and ready.buckets = asked.buckets
    order by ready.seq limit 1
) as first
where asked.job_id = any ($1::uuid[]) and first.job_id <> asked.job_id and asked.buckets <> ''
