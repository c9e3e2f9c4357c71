-- $1 now   $2 queues, each once   $3 the longest wait that a throttled job of each asks for
-- $4 and $5 base and cap of a queue that is not tuned
-- The first throttle of a window raises the count; its siblings only extend the window. A throttle
-- later than 120 s after the window's end counts as the first again.
with asked as materialized (
    select queue, hint from unnest($2::text[], $3::float8[]) as given (queue, hint)
)
insert into {{schema}}.queue as tuned (name, throttles, cool_until)
select queue, 1, {{now}} + interval '1 second' * greatest(hint, least($4::float8, $5::float8)) from asked order by queue
on conflict (name) do update set
    throttles = case
        when tuned.cool_until > {{now}} then tuned.throttles
        when tuned.cool_until + interval '120 seconds' >= {{now}} then tuned.throttles + 1
        else 1 end,
    cool_until = {{now}} + case
        when tuned.cool_until > {{now}}
            then greatest(tuned.cool_until - {{now}}, interval '1 second'
                * (select hint from asked where asked.queue = tuned.name))
        else interval '1 second' * greatest(
            (select hint from asked where asked.queue = tuned.name),
            least(coalesce((tuned.settings ->> 'throttle_cap')::float8, $5::float8),
                coalesce((tuned.settings ->> 'throttle_base')::float8, $4::float8) * power(2, case
                when tuned.cool_until + interval '120 seconds' >= {{now}}
                    then least(tuned.throttles, 60) else 0 end)))
        end
