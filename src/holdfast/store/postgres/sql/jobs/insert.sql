-- $1 now   $2 channel   $3 ids   $4 tasks   $5 queues   $6 priorities   $7 args   $8 policies
-- $9 tags, one array literal a job   $10 headers   $11 timeouts   $12 run at   $13 delays
-- $14 deadlines   $15 deadlines as seconds from now   $16 ties   $17 blocked
-- uses: placed woken
-- An insert whose reply was lost may be sent again: for a body that is there already nothing is
-- written.
with new as materialized (
    select id, task, queue, priority, args, policy, tags, headers, timeout, ties, blocked, n,
        coalesce(run_at, {{now}} + delay * interval '1 second') as due_at,
        coalesce(deadline_at, {{now}} + deadline_in * interval '1 second') as deadline_at
    from unnest($3::uuid[], $4::text[], $5::text[], $6::int[], $7::text[], $8::text[], $9::text[],
        $10::text[], $11::float8[], $12::timestamptz[], $13::float8[], $14::timestamptz[],
        $15::float8[], $16::smallint[], $17::boolean[]) with ordinality
        as given (id, task, queue, priority, args, policy, tags, headers, timeout, run_at, delay,
            deadline_at, deadline_in, ties, blocked, n)
),
body as (
    insert into {{schema}}.job
        (id, task, args, policy, tags, headers, timeout, deadline_at, created_at)
    select id, task, args, policy, tags::text[], headers, timeout, deadline_at, {{now}}
    from new
    order by n
    on conflict (id) do nothing
    returning id
),
{{placed}},
{{woken}}
select created.id::text, woken.calls from created cross join woken
