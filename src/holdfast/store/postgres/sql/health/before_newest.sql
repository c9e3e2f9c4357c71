-- $1 how many of the newest jobs to pass over
select job.id from {{schema}}.job order by job.id desc limit 1 offset $1::int
