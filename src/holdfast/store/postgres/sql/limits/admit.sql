-- $1 now   $2 worker   $3 tasks   $4 number of this claim   $5 queue   $6 limit   $7 how many begin at once
-- $8 whether to leave a part to jobs without limits
-- uses: counted
-- Jobs with limits of one queue: one turn of its lines. The gate is that of claim.sql.
with asked as materialized (
    select $5::text as queue
    where exists (
        select from {{schema}}.worker where id = $2::uuid and expires_at > {{now}}
    )
    and not exists (
        select from {{schema}}.queue
        where queue.name = any (array[$5::text, '*']) and (queue.paused or queue.cool_until > {{now}})
    )
),
found as materialized (
    select admitted.*
    from asked
    cross join lateral {{schema}}.admit(
        $2::uuid, $4::bigint,
        array(select task from unnest($3::text[]) as task where not exists (
            select from {{schema}}.queue where queue.paused and queue.name = '*' || task)),
        asked.queue, $6::int, $7::int,
        case when $8::boolean then (
            select priority from {{schema}}.ready where queue = asked.queue and not limited
            order by priority limit 1) end,
        {{now}}) as admitted
),
counting as (
    select queue, task, 'ready' as source, 'running' as target, 'claimed' as what from found
),
{{counted}}
select job_id::text, task, queue, priority, args, policy, attempts, crashes, fence,
    date_part('epoch', created_at) as created_at, date_part('epoch', since) as ready_at,
    date_part('epoch', {{now}}) as claimed_at,
    case when deadline_at > {{calendar_end}} then {{calendar_end}} else deadline_at end as deadline_at,
    case when cardinality(tags) > 0 then tags end as tags, headers, checkpoint, ahead, ties, seq
from found
