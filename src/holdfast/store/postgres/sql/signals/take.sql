-- $1 ids   $2 numbers   $3 names of the steps that have the values
update {{schema}}.signal set taken_by = given.step, value = null
from unnest($1::uuid[], $2::int[], $3::text[]) as given (job_id, n, step)
where signal.job_id = given.job_id and signal.n = given.n
