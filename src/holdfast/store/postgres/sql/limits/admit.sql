-- $1 now   $2 worker   $3 tasks   $4 number of this claim   $5 queue   $6 limit   $7 how many begin at once
-- $8 whether to leave a part to jobs without limits   $9 how many jobs to look at   $10 channel
-- $11 labels of the worker   $12 priority (null: all)   $13 labels that a job must need
-- $14 from priority, $15 from turn, $16 from number, $17 to priority: the stretches of lines to look at, as in
-- claim.sql
-- Jobs with limits of one queue: one turn of its lines. The gate is that of claim.sql.
select admitted.job_id, admitted.task, admitted.queue, admitted.priority, admitted.args, admitted.policy,
    admitted.attempts, admitted.crashes, admitted.fence, admitted.created_at, admitted.ready_at,
    admitted.claimed_at,
    case when admitted.deadline_at > {{calendar_end}} then {{calendar_end}} else admitted.deadline_at end
        as deadline_at,
    admitted.tags, admitted.headers, admitted.checkpoint, admitted.ahead, admitted.ties, admitted.seq,
    admitted.first_turn, admitted.first_line
from {{schema}}.admit(
    $2::uuid, $4::bigint,
    array(select task from unnest($3::text[]) as task where not exists (
        select from {{schema}}.queue where queue.paused and queue.name = '*' || task)),
    $5::text, $6::int, $9::int, $7::int,
    case when $8::boolean then (
        select priority from {{schema}}.ready_plain where queue = $5::text order by priority limit 1) end,
    $12::int, $11::text[], $13::text[], $10::text, {{now}},
    $14::int[], $15::bigint[], $16::bigint[], $17::int[]) as admitted
where exists (
    select from {{schema}}.worker where id = $2::uuid and expires_at > {{now}}
)
and not exists (
    select from {{schema}}.queue
    where queue.name = any (array[$5::text, '*']) and (queue.paused or queue.cool_until > {{now}})
)
