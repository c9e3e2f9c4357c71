-- $1 now   $2 buckets, each once   $3 the longest wait that a throttled job of each asks for
-- $4 and $5 base and cap of the wait
-- As queues/throttle.sql, for buckets.
with asked as materialized (
    select name, hint from unnest($2::text[], $3::float8[]) as given (name, hint)
)
insert into {{schema}}.bucket as known (name, throttles, shut_until, touched_at)
select name, 1, {{now}} + interval '1 second' * greatest(hint, least($4::float8, $5::float8)), {{now}}
from asked order by name
on conflict (name) do update set
    throttles = case
        when known.shut_until > {{now}} then known.throttles
        when known.shut_until + interval '120 seconds' >= {{now}} then known.throttles + 1
        else 1 end,
    shut_until = {{now}} + case
        when known.shut_until > {{now}}
            then greatest(known.shut_until - {{now}}, interval '1 second'
                * (select hint from asked where asked.name = known.name))
        else interval '1 second' * greatest(
            (select hint from asked where asked.name = known.name),
            least($5::float8, $4::float8 * power(2, case
                when known.shut_until + interval '120 seconds' >= {{now}}
                    then least(known.throttles, 60) else 0 end)))
        end
returning name
