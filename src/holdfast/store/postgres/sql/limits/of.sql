-- $1 job ids
select job_id::text, buckets from {{schema}}.limited where job_id = any ($1::uuid[])
