-- $1 ids
-- The steps of jobs, and then their signals: one round trip for a job that goes on.
select job_id::text, true as is_step, name, n, fence, tries, result, kind, message, version, until, at,
    awaits, undo, null as key, null as taken_by
from {{schema}}.step
where job_id = any (array(select * from unnest($1::uuid[])))
union all
select job_id::text, false, name, n, null, null, value, null, null, null, null, at, null, null, key,
    taken_by
from {{schema}}.signal
where job_id = any (array(select * from unnest($1::uuid[])))
order by 1, 2 desc, 4, 3
