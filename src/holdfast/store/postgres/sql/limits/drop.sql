-- $1 ids of jobs that were not inserted after all
delete from {{schema}}.limited where job_id = any ($1::uuid[]) returning job_id::text
