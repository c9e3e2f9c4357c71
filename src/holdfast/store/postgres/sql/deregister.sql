-- $1 worker
with gone as (
    delete from {{schema}}.worker where id = $1::uuid
)
delete from {{schema}}.leader where worker_id = $1::uuid
