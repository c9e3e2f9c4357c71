-- $1 ids
-- uses: removed
with gone as (
    delete from {{schema}}.outcome where job_id = any ($1::uuid[]) returning job_id
),
{{removed}}
select job_id from gone
