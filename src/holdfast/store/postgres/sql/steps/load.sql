-- $1 ids
select job_id::text, name, n, fence, tries, result, kind, message, version, until, at, awaits, undo
from {{schema}}.step
where job_id = any (array(select * from unnest($1::uuid[])))
order by job_id, n, name
