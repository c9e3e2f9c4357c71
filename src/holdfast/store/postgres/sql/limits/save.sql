-- $1 now   $2 channel   $3 buckets, which are locked   $4 spent   $5 since   $6 scales   $7 slices and $8 their units, as
-- texts   $9 alarms
with saved as (
    update {{schema}}.bucket set spent = given.spent, since = given.since, scale = given.scale,
        slices = given.slices::bigint[], units = given.units::bigint[], alarms = given.alarms, touched_at = {{now}}
    from unnest($3::text[], $4::bigint[], $5::bigint[], $6::bigint[], $7::text[], $8::text[], $9::smallint[])
        as given (name, spent, since, scale, slices, units, alarms)
    where bucket.name = given.name
    returning bucket.name
)
select case when exists (select from unnest($9::smallint[]) as alarms where alarms & 3 <> 0)
    then pg_notify($2::text, 'limits') end
