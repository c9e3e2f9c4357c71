-- $1 now   $2 channel   $3 ids   $4 queue   $5 who moves them
-- uses: change_waiting counted happened_waiting told woken
-- let ids: $3::uuid[]
-- let may: true
-- let change: queue = $4::text
-- let what: 'moved'
-- let by: $5::text
-- let due: null::timestamptz
-- let message: queue
with {{change_waiting}},
counting as (
    select queue, task, place as source, '' as target, 'moved' as what
    from changed where queue <> $4::text
    union all
    select $4::text, task, '', place, 'moved' from changed where queue <> $4::text
),
{{counted}},
told_of as (
    select * from changed where queue <> $4::text
),
{{happened_waiting}},
{{told}},
{{woken}}
select changed.job_id, woken.calls from changed cross join woken
