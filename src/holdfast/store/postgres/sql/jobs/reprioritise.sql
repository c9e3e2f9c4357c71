-- $1 ids   $2 priority
-- uses: change_waiting
-- let ids: $1::uuid[]
-- let change: priority = $2::int
with {{change_waiting}}
select job_id from changed
