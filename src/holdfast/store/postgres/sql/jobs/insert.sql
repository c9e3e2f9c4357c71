-- $1 now   $2 channel   $3 ids   $4 tasks   $5 queues   $6 priorities   $7 timeouts   $8 run at
-- $9 delays   $10 deadlines   $11 deadlines as seconds from now   $12 ties   $13 blocked
-- and the columns of the body
-- uses: placed counted woken
-- An insert whose reply was lost may be sent again: for a body that is there already nothing is
-- written.
with new as materialized (
    select id, task, queue, priority, {{body}}, timeout, ties, blocked, n,
        coalesce(run_at, {{now}} + delay * interval '1 second') as due_at,
        coalesce(deadline_at, {{now}} + deadline_in * interval '1 second') as deadline_at
    from unnest($3::uuid[], $4::text[], $5::text[], $6::int[], $7::float8[], $8::timestamptz[],
        $9::float8[], $10::timestamptz[], $11::float8[], $12::smallint[], $13::boolean[],
        {{body_arrays}}) with ordinality
        as given (id, task, queue, priority, timeout, run_at, delay, deadline_at, deadline_in, ties,
            blocked, {{body}}, n)
),
body as (
    insert into {{schema}}.job
        (id, task, {{body}}, timeout, deadline_at, created_at)
    select id, task, {{body_given}}, timeout, deadline_at, {{now}}
    from new
    order by n
    on conflict (id) do nothing
    returning id
),
{{placed}},
{{woken}}
select created.id::text, woken.calls from created cross join woken
