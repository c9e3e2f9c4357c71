-- $1 ids   $2 channel   $3 priority
-- uses: change_waiting woken
-- let ids: $1::uuid[]
-- let change: priority = $3::int
with {{change_waiting}},
{{woken}}
select changed.job_id, woken.calls from changed cross join woken
