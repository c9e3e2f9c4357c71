-- $1 now   $2 channel   $3 ids   $4 tasks   $5 queues   $6 priorities   $7 args   $8 policies
-- $9 tags, one array literal a job   $10 headers   $11 timeouts   $12 run at   $13 delays
-- $14 deadlines   $15 deadlines as seconds from now
-- Times count from this call, not from the BEGIN of a caller's transaction that may have lasted a
-- while: hence statement_timestamp(), here and in all that an insert may do besides.
-- An insert whose reply was lost may be sent again: a body that is there already makes no second row.
with new as materialized (
    select id, task, queue, priority, args, policy, tags, headers, timeout, n,
        coalesce(run_at, coalesce($1::timestamptz, statement_timestamp())
            + delay * interval '1 second') as due_at,
        coalesce(deadline_at, coalesce($1::timestamptz, statement_timestamp())
            + deadline_in * interval '1 second') as deadline_at
    from unnest($3::uuid[], $4::text[], $5::text[], $6::int[], $7::text[], $8::text[], $9::text[],
        $10::text[], $11::float8[], $12::timestamptz[], $13::float8[], $14::timestamptz[],
        $15::float8[]) with ordinality
        as given (id, task, queue, priority, args, policy, tags, headers, timeout, run_at, delay,
            deadline_at, deadline_in, n)
),
body as (
    insert into {{schema}}.job
        (id, task, args, policy, tags, headers, timeout, deadline_at, created_at)
    select id, task, args, policy, tags::text[], headers, timeout, deadline_at,
        coalesce($1::timestamptz, statement_timestamp())
    from new
    order by n
    on conflict (id) do nothing
    returning id
),
created as materialized (
    -- "is true" keeps the subquery a hashed lookup; as a join it could become a loop in a loop
    select *, coalesce(due_at > coalesce($1::timestamptz, statement_timestamp()), false) as later
    from new where (id in (select id from body)) is true
),
to_ready as (
    insert into {{schema}}.ready (job_id, queue, priority, task, since)
    select id, queue, priority, task, coalesce($1::timestamptz, statement_timestamp())
    from created where not later order by n
),
to_scheduled as (
    insert into {{schema}}.scheduled (job_id, due_at, queue, priority, task)
    select id, due_at, queue, priority, task from created where later
),
to_deadline as (
    insert into {{schema}}.deadline (job_id, at)
    select id, deadline_at from created where deadline_at is not null
),
woken as (
    select count(pg_notify($2::text || few, payload)) as calls
    from (
        select case when length(string_agg(distinct queue, ',')) >= 2000
            then 'ready:' else 'ready:' || string_agg(distinct queue, ',')
                || case when count(*) <= 8 and min(queue) = max(queue) then '=' || count(*) else '' end
            end as payload,
            case when count(*) <= 8 and min(queue) = max(queue) then '_few' else '' end as few
        from created where not later
        union all
        select 'due', '' from created where later or deadline_at is not null limit 2
    ) as hints
    where payload is not null
)
select created.id::text, woken.calls from created cross join woken
