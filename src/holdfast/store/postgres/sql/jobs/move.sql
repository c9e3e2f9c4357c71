-- $1 ids   $2 channel   $3 queue
-- uses: change_waiting woken
-- let ids: $1::uuid[]
-- let change: queue = $3::text
with {{change_waiting}},
{{woken}}
select changed.job_id, woken.calls from changed cross join woken
