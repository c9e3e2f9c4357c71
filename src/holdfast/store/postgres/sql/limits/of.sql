-- $1 job ids
select job_id::text, buckets, nullif(costs, '') as costs from {{schema}}.limited where job_id = any ($1::uuid[])
