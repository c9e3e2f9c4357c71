-- $1 ids of jobs   $2 how long to wait for a flow that others have locked (null: as the transaction
-- does)   $3 do not wait at all, but pass it by
select lock_flows_of::text as job_id from {{schema}}.lock_flows_of($1::uuid[], $2::text, $3::boolean)
