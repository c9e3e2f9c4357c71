-- $1 ids
-- The unique keys that these jobs have, whoever holds them now.
select id::text as job_id, unique_key as key from {{schema}}.job
where id = any ($1::uuid[]) and unique_key is not null
