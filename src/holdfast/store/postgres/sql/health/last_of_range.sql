-- $1 the jobs above this id   $2 how many of them to pass over
select job.id from {{schema}}.job where job.id > $1::uuid order by job.id limit 1 offset $2::int
