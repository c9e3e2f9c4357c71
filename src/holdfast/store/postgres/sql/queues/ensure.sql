-- $1 names   $2 throttle bases   $3 throttle caps   $4 $5 $6 seconds to keep succeeded, failed, other
-- An operator's tuning is never overwritten.
insert into {{schema}}.queue
    (name, throttle_base, throttle_cap, retain_succeeded, retain_failed, retain_other)
select * from unnest($1::text[], $2::float8[], $3::float8[], $4::float8[], $5::float8[], $6::float8[])
    as given (name, base, cap, succeeded, failed, other)
order by name
on conflict (name) do nothing
