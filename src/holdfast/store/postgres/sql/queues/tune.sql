-- $1 name   $2 throttle base   $3 throttle cap   $4 $5 $6 seconds to keep succeeded, failed, other
insert into {{schema}}.queue
    (name, throttle_base, throttle_cap, retain_succeeded, retain_failed, retain_other)
values ($1::text, $2::float8, $3::float8, $4::float8, $5::float8, $6::float8)
on conflict (name) do update
set throttle_base = excluded.throttle_base, throttle_cap = excluded.throttle_cap,
    retain_succeeded = excluded.retain_succeeded, retain_failed = excluded.retain_failed,
    retain_other = excluded.retain_other
