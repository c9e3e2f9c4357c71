-- $1 worker
with gone as (
    delete from {{schema}}.worker where id = $1::uuid
),
uncounted as (
    delete from {{schema}}.counter where topic = 'cancel' and name = $1::uuid::text
)
delete from {{schema}}.leader where worker_id = $1::uuid
