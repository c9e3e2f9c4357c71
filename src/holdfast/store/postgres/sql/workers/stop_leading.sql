-- $1 channel   $2 role   $3 worker
-- Tells the other workers, so that one of them leads at once.
with gone as (
    delete from {{schema}}.leader where role = $2::text and worker_id = $3::uuid returning role
)
select pg_notify($1::text, 'lead:' || role) from gone
