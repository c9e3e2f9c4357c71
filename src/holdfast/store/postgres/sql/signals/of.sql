-- $1 ids
select job_id::text, n, name, value, key, taken_by, at
from {{schema}}.signal
where job_id = any (array(select * from unnest($1::uuid[])))
order by job_id, n
