-- The successes of nodes are answered by their number, as those of plain jobs are, and not by a row for each.

drop function {{schema}}.succeed_nodes(timestamptz, text, uuid[], bigint[], text[], text, int);

-- Ends nodes that succeeded and have nothing else to write, with all that follows: the short way of
-- `lock_flows_of`, `finish.sql` and `settle`, in one call. Answers with the moves that it made: `moved` nodes
-- of one queue and task, or one node that left its blocked place. 0 `moved`: the node was refused.
create function {{schema}}.succeed_nodes(
    now timestamptz, channel text, jobs uuid[], fences bigint[], results text[], wait text, most int
)
returns table (job_id uuid, queue text, task text, source text, target text, moved bigint) language plpgsql
set enable_nestloop = off set enable_seqscan = off set enable_bitmapscan = off set jit = off
set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
    gone record;
begin
    if wait is not null then
        perform set_config('lock_timeout', wait, true);
    end if;
    perform from {{schema}}.flow where id = any (array(
        select flow_id from {{schema}}.node where job_id = any (jobs)))
    order by id for update;
    with given as materialized (
        select * from unnest(jobs, fences, results) as given (job_id, fence, result)
    ),
    closed as (
        -- the guard: an old fence deletes nothing
        delete from {{schema}}.lease
        where job_id = any (jobs) and ((job_id, fence) in (select job_id, fence from given)) is true
        returning job_id, queue, priority, task, attempts, crashes, fence, ties, claimed_at, worker_id
    ),
    written as (
        -- a node is kept as long as its flow
        insert into {{schema}}.outcome (job_id, state, queue, priority, task, attempts, crashes, fence,
            ties, claimed_at, worker_id, finished_at, result)
        select closed.job_id, 'succeeded', queue, priority, task, attempts + 1, crashes, closed.fence,
            ties, claimed_at, worker_id, now, given.result
        from closed join given on given.job_id = closed.job_id
        returning job_id, queue, task
    )
    select array_agg(job_id) as jobs, array_agg(queue) as queues, array_agg(task) as tasks
    into gone from written;
    if coalesce(cardinality(gone.jobs), 0) < cardinality(jobs) then
        return query
            select id, null, null, null, null, 0::bigint from unnest(jobs) as given (id)
            where id <> all (coalesce(gone.jobs, '{}'));
    end if;
    if gone.jobs is null then
        return;
    end if;
    return query
        select null::uuid, queue, task, 'running', 'succeeded', count(*)
        from unnest(gone.queues, gone.tasks) as ended (queue, task) group by queue, task;
    return query select *, 1::bigint from {{schema}}.settle(now, channel, gone.jobs,
        array_fill('succeeded'::text, array[cardinality(gone.jobs)]), true, '{}', '{}', '{}', most);
end $$;
