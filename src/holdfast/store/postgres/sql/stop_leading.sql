-- $1 role   $2 worker
delete from {{schema}}.leader where role = $1::text and worker_id = $2::uuid
