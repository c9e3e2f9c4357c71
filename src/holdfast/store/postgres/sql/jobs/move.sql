-- $1 now   $2 channel   $3 ids   $4 queue
-- uses: change_waiting counted woken
-- let ids: $3::uuid[]
-- let change: queue = $4::text
with {{change_waiting}},
counting as (
    select queue, task, place as source, '' as target, 'moved' as what
    from changed where queue <> $4::text
    union all
    select $4::text, task, '', place, 'moved' from changed where queue <> $4::text
),
{{counted}},
{{woken}}
select changed.job_id, woken.calls from changed cross join woken
