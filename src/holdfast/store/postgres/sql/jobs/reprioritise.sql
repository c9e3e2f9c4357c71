-- $1 now   $2 channel   $3 ids   $4 priority   $5 who reprioritises
-- uses: change_waiting happened_waiting told woken
-- let ids: $3::uuid[]
-- let may: true
-- let change: priority = $4::int
-- let what: 'reprioritised'
-- let by: $5::text
-- let due: null::timestamptz
-- let message: priority::text
with {{change_waiting}},
told_of as (
    select * from changed where priority <> $4::int
),
{{happened_waiting}},
{{told}},
{{woken}}
select changed.job_id, woken.calls from changed cross join woken
