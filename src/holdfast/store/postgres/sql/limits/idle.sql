-- $1 now   $2 buckets, which the caller has locked   $3 seconds
-- Those that hold nothing up and were not touched for so long. Their books may still count.
select name from {{schema}}.bucket
where name = any ($2::text[]) and in_use = 0 and not has_waiting and override is null
and touched_at < {{now}} - $3::float8 * interval '1 second'
and (shut_until is null or shut_until < {{now}} - $3::float8 * interval '1 second')
