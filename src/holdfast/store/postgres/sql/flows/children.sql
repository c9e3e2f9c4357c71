-- $1 jobs
select parent::text, id::text from {{schema}}.flow where parent = any ($1::uuid[]) order by id
