-- $1 now   $2 channel   $3 buckets (null: all that lines wait at, of the limits $4)   $4 limits
-- uses: woken
-- Corrects when buckets are to be looked at that lines wait at, and wakes their workers where there is room.
with locked as materialized (
    select bucket.name from {{schema}}.bucket
    where bucket.has_waiting and (
        bucket.name = any ($3::text[]) or split_part(bucket.name, ':', 1) = any ($4::text[]))
    order by bucket.name
    for update
),
looked_at as (
    update {{schema}}.bucket set opens_at = {{schema}}.opening_of(bucket, rule, {{now}})
    from locked
    left join {{schema}}.limit_rule as rule on rule.name = split_part(locked.name, ':', 1)
    where bucket.name = locked.name
    returning bucket.name, bucket.opens_at <= {{now}} as has_room
),
now_ready as (
    select parked.queue
    from looked_at
    cross join lateral (
        select distinct queue from {{schema}}.line where parked_at = looked_at.name
    ) as parked
    where looked_at.has_room
),
now_timed as (
    select where false
),
{{woken}}
select woken.calls from woken
