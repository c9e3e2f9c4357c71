-- $1 now   $2 buckets   $3 seconds (0 ends a drain)
insert into {{schema}}.bucket as known (name, shut_until, throttles, touched_at)
select name, case when seconds > 0 then {{now}} + seconds * interval '1 second' end, (seconds > 0)::int, {{now}}
from unnest($2::text[], $3::float8[]) as given (name, seconds) order by name
on conflict (name) do update set
    shut_until = excluded.shut_until, throttles = excluded.throttles, touched_at = excluded.touched_at
returning name
