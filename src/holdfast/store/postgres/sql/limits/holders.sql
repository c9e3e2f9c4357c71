-- $1 bucket   $2 how many
select job_id::text, task, worker_id::text, claimed_at
from {{schema}}.lease
where buckets is not null and $1::text = any (string_to_array(buckets, E'\n'))
order by claimed_at, job_id
limit $2::int
