-- Flows: jobs that wait for jobs. See holdfast/flow/model.py for the words.

-- `open` is the number of its live nodes, `failed` of its sinks that ended badly. `keep` has the
-- seconds that the ended flow is kept, by its state.
create table {{schema}}.flow (
    id uuid primary key,
    name text not null,
    state text collate "C" not null check (state in
        ('running', 'paused', 'cancelling', 'succeeded', 'failed', 'cancelled')),
    total int not null,
    open int not null,
    failed int not null default 0,
    epoch bigint not null default 1,
    cancel_asked boolean not null default false,
    unique_key text collate "C",
    tags text[] not null default '{}',
    parent uuid,
    keep jsonb not null,
    reason text,
    created_at timestamptz not null,
    finished_at timestamptz,
    expires_at timestamptz -- null: never
);
create unique index flow_key on {{schema}}.flow (unique_key)
where unique_key is not null and finished_at is null;
create index flow_expiry on {{schema}}.flow (expires_at) where expires_at is not null;
create index flow_live on {{schema}}.flow (id) where finished_at is null;

-- What was written for those who show the graph: first the whole, then each growth.
create table {{schema}}.flow_graph (
    flow_id uuid not null,
    n int not null,
    graph text not null,
    primary key (flow_id, n)
);

-- `is_bad`: it was skipped because another node failed, expired or was cancelled.
create table {{schema}}.node (
    job_id uuid primary key,
    flow_id uuid not null,
    name text collate "C" not null,
    is_sink boolean not null,
    is_bad boolean not null default false,
    delay float8,
    inputs text
);
create unique index node_name on {{schema}}.node (flow_id, name);

-- A gate is there until it is met, or its node ends. `is_bad`: an edge was lost to a bad end.
create table {{schema}}.gate (
    job_id uuid not null,
    n int not null,
    flow_id uuid not null,
    need int not null,
    total int not null,
    won int not null default 0,
    lost int not null default 0,
    is_bad boolean not null default false,
    losers text collate "C" not null,
    primary key (job_id, n)
);
create index gate_flow on {{schema}}.gate (flow_id);

-- An edge is there until it is decided.
create table {{schema}}.edge (
    upstream uuid not null,
    downstream uuid not null,
    n int not null,
    wants smallint not null,
    primary key (upstream, downstream, n)
);
create index edge_downstream on {{schema}}.edge (downstream, n);

create table {{schema}}.errand (
    id bigint generated always as identity primary key,
    flow_id uuid not null,
    kind text collate "C" not null,
    job_id uuid,
    what text collate "C",
    at timestamptz not null
);
create index errand_flow on {{schema}}.errand (flow_id);

-- The row of a flow changes with every end of a node, and the row of a gate with every edge.
alter table {{schema}}.flow set (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 500);
alter table {{schema}}.gate set (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000);
alter table {{schema}}.edge set (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000);
alter table {{schema}}.errand set (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);

-- The functions below are called by the scripts in sql/flows. They are functions because several
-- statements must follow each other without a round trip between them. Each statement has a snapshot
-- of its own, and the second must see what was committed before the first got its locks.
-- Their settings make every join a hash join and every look at a table a walk along its key, whatever
-- the statistics say: a plan that was made while a table was empty stays right when it is full, and
-- rows of one table are locked in the order of their keys.

-- Locks the flows of these jobs, in order of id. Whatever changes a graph, its gates or the state of
-- a node takes these locks first, then leases, then gates, then places: so all changes of one flow
-- come one after the other, and nobody waits in a circle. `wait` bounds the wait for a lock (null: as
-- the transaction does). With `pass_by` a flow that somebody else has locked is not waited for.
-- Answers with the jobs whose flow is locked now, and those that have none.
create function {{schema}}.lock_flows_of(jobs uuid[], wait text, pass_by boolean)
returns setof uuid language plpgsql
set enable_nestloop = off set enable_seqscan = off set enable_bitmapscan = off set jit = off
set plan_cache_mode = force_generic_plan
as $$
declare
    mine uuid[];
begin
    if wait is not null then
        perform set_config('lock_timeout', wait, true);
    end if;
    if not pass_by then
        perform from {{schema}}.flow where id = any (array(
            select flow_id from {{schema}}.node where job_id = any (jobs)))
        order by id for update;
        return query select unnest(jobs);
        return;
    end if;
    select array_agg(id) into mine from (
        select id from {{schema}}.flow where id = any (array(
            select flow_id from {{schema}}.node where job_id = any (jobs)))
        order by id for update skip locked
    ) as locked;
    return query
        select unnest(jobs)
        except select job_id from {{schema}}.node
        where job_id = any (jobs) and (flow_id = any (mine)) is not true;
end $$;

-- What the end of nodes does to their flows. The flows are locked.
--
-- Rounds: the edges of all nodes that ended are counted at their gates; nodes whose gates are all met
-- are released, and nodes with an impossible gate are skipped. What was skipped are the ended nodes of
-- the next round. When `most` nodes are skipped, an errand is owed for the rest.
--
-- `ended`, `states`: nodes, and how they ended. `fresh`: they counted as live until now; if not, `judge`
-- names their flows. `idle`: those of them that were blocked, so that their own gates are there.
-- `judge`: flows of which all gates are judged, and that end if none of their nodes is live. `ungated`:
-- blocked nodes that need no gate. Answers with the nodes that left their blocked place.
create function {{schema}}.settle(
    now timestamptz, channel text, ended uuid[], states text[], fresh boolean, idle uuid[],
    judge uuid[], ungated uuid[], most int
)
returns table (job_id uuid, queue text, task text, source text, target text) language plpgsql
set enable_nestloop = off set enable_seqscan = off set enable_bitmapscan = off set jit = off
set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
    targets uuid[] := '{}';
    quiet uuid[] := judge;
    found record;
    gone record;
    skips int := 0;
    owed int;
begin
    if idle <> '{}' then
        delete from {{schema}}.gate where job_id = any (idle);
        delete from {{schema}}.edge where downstream = any (idle);
    end if;
    if judge <> '{}' then
        targets := array(select distinct job_id from {{schema}}.gate where flow_id = any (judge));
    end if;
    loop
        -- Count the ends at their gates, and judge the gates.
        with over as materialized (
            -- the bits are BITS in holdfast/flow/model.py
            select node.job_id, node.flow_id, node.name, node.is_sink, given.state,
                given.state in ('failed', 'expired', 'cancelled')
                    or (given.state = 'skipped' and node.is_bad) as is_bad,
                case given.state when 'succeeded' then 1 when 'failed' then 2
                    when 'cancelled' then 4 when 'expired' then 8 when 'skipped' then 16
                end as bit
            from unnest(ended, states) as given (job_id, state)
            join {{schema}}.node on node.job_id = given.job_id
            where node.job_id = any (ended)
        ),
        tally as (
            select flow_id, sum(nodes) as nodes, count(*) filter (where is_sink and is_bad) as failed
            from (
                select flow_id, 1 as nodes, is_sink, is_bad from over where fresh
                union all
                select flow_id, 0, false, false from unnest(judge) as asked (flow_id)
            ) as counting
            group by flow_id
        ),
        flow as (
            update {{schema}}.flow set open = flow.open - tally.nodes,
                failed = flow.failed + tally.failed
            from tally
            where flow.id = any (array(select flow_id from over) || judge)
            and flow.id = tally.flow_id
            returning flow.id, flow.state, flow.open
        ),
        taken as (
            delete from {{schema}}.edge where upstream = any (ended)
            returning upstream, downstream, n, wants
        ),
        decided as materialized (
            select taken.downstream as job_id, taken.n, count(*) filter (where wins) as won,
                count(*) filter (where not wins) as lost,
                bool_or(not wins and over.is_bad) as is_bad,
                min(format('''%s'' is %s', over.name, over.state)) filter (where not wins) as because
            from taken
            join over on over.job_id = taken.upstream
            cross join lateral (select taken.wants & over.bit <> 0 as wins) as judged
            group by taken.downstream, taken.n
        ),
        counts as (
            -- all gates of each node of which one gate has changed
            select gate.ctid as place, gate.job_id, gate.n, gate.flow_id, gate.losers, gate.need,
                gate.total,
                gate.won + coalesce(decided.won, 0) as won,
                gate.lost + coalesce(decided.lost, 0) as lost,
                gate.is_bad or coalesce(decided.is_bad, false) as is_bad,
                decided.job_id is not null as changed,
                coalesce(decided.because, 'a node that it needs has ended') as because
            from {{schema}}.gate
            left join decided on decided.job_id = gate.job_id and decided.n = gate.n
            where gate.job_id = any (array(select job_id from decided) || targets)
        ),
        verdicts as (
            select counts.*, flow.state = 'running' and counts.won >= counts.need as met,
                flow.state = 'running' and counts.lost > counts.total - counts.need as impossible
            from counts join flow on flow.id = counts.flow_id
        ),
        judged as materialized (
            select *, met or bool_or(impossible) over of_node as is_shut,
                bool_and(met) over of_node as is_free
            from verdicts
            window of_node as (partition by job_id)
        ),
        shut as (
            -- by place: nobody moves a gate while its flow is locked
            delete from {{schema}}.gate
            where gate.ctid = any (array(select place from judged where is_shut))
        ),
        counted as (
            update {{schema}}.gate set won = judged.won, lost = judged.lost, is_bad = judged.is_bad
            from judged
            where gate.ctid = any (array(select place from judged where changed and not is_shut))
            and gate.ctid = judged.place
        )
        select array(select distinct job_id from judged where is_free) as free,
            array(select id from flow where open = 0) as quiet,
            array_agg(job_id) filter (where impossible) as lost,
            array_agg(because) filter (where impossible) as reasons,
            array_agg(is_bad) filter (where impossible) as bads,
            array_agg(job_id) filter (where owes) as winners,
            array_agg(flow_id) filter (where owes) as owing,
            array_agg(job_id) filter (where is_cut) as cut,
            array_agg(n) filter (where is_cut) as cut_n
        into found
        from (
            select *, met and not impossible and losers = 'cancel' as owes,
                is_shut and won + lost < total as is_cut
            from judged order by job_id, n
        ) as in_order;

        quiet := quiet || found.quiet;
        if found.cut is not null then
            delete from {{schema}}.edge
            where downstream = any (found.cut)
            and ((downstream, n) in (select * from unnest(found.cut, found.cut_n))) is true;
        end if;
        if found.winners is not null then
            insert into {{schema}}.errand (flow_id, kind, job_id, at)
            select flow_id, 'losers', job_id, now
            from unnest(found.owing, found.winners) as met (flow_id, job_id);
            perform pg_notify(channel, 'errands');
        end if;
        if ungated <> '{}' then
            found.free := found.free || array(
                select node.job_id from {{schema}}.node
                join {{schema}}.flow on flow.id = node.flow_id
                where node.job_id = any (ungated) and flow.id = any (judge)
                and flow.state = 'running');
        end if;
        if found.free <> '{}' then
            return query
                with gone as (
                    delete from {{schema}}.blocked where job_id = any (found.free)
                    returning job_id, queue, priority, task, attempts, crashes, fence, ties
                ),
                going as materialized (
                    select gone.*, node.delay, coalesce(node.delay, 0) > 0 as later
                    from gone join {{schema}}.node on node.job_id = gone.job_id
                    where node.job_id = any (found.free)
                ),
                to_ready as (
                    insert into {{schema}}.ready
                        (job_id, queue, priority, task, attempts, crashes, fence, ties, since)
                    select job_id, queue, priority, task, attempts, crashes, fence, ties, now
                    from going where not later order by job_id
                ),
                to_scheduled as (
                    insert into {{schema}}.scheduled (job_id, due_at, queue, priority, task,
                        attempts, crashes, fence, ties, reason)
                    select job_id, now + delay * interval '1 second', queue, priority, task,
                        attempts, crashes, fence, ties, 'released'
                    from going where later
                )
                select job_id, queue, task, 'blocked', case when later then 'scheduled' else 'ready' end
                from going;
        end if;

        exit when found.lost is null;
        with verdict as materialized (
            select distinct on (job_id) job_id, because, is_bad
            from unnest(found.lost, found.reasons, found.bads) with ordinality
                as given (job_id, because, is_bad, n)
            order by job_id, n
        ),
        gone as (
            delete from {{schema}}.blocked where job_id = any (found.lost)
            returning job_id, queue, priority, task, attempts, crashes, fence, ties
        ),
        to_outcome as (
            insert into {{schema}}.outcome (job_id, state, queue, priority, task, attempts, crashes,
                fence, ties, finished_at, reason)
            select gone.job_id, 'skipped', queue, priority, task, attempts, crashes, fence, ties, now,
                verdict.because
            from gone join verdict on verdict.job_id = gone.job_id
            returning job_id, queue, task
        ),
        no_deadline as (
            delete from {{schema}}.deadline where job_id = any (array(select job_id from gone))
        ),
        marked as (
            update {{schema}}.node set is_bad = true
            where job_id = any (array(select job_id from verdict where is_bad))
        )
        select array_agg(job_id) as jobs, array_agg(queue) as queues, array_agg(task) as tasks
        into gone from to_outcome;

        exit when gone.jobs is null;
        return query select *, 'blocked', 'skipped' from unnest(gone.jobs, gone.queues, gone.tasks);
        ended := gone.jobs;
        states := array_fill('skipped'::text, array[cardinality(ended)]);
        fresh := true;
        judge := '{}';
        targets := '{}';
        ungated := '{}';
        skips := skips + cardinality(ended);
        if skips >= most then
            with over as materialized (
                select flow_id, count(*) as nodes,
                    count(*) filter (where is_sink and is_bad) as failed
                from {{schema}}.node where job_id = any (ended) group by flow_id
            ),
            counted as (
                update {{schema}}.flow set open = flow.open - over.nodes,
                    failed = flow.failed + over.failed
                from over
                where flow.id = any (array(select flow_id from over)) and flow.id = over.flow_id
            )
            insert into {{schema}}.errand (flow_id, kind, at)
            select flow_id, 'settle', now from over order by flow_id;
            perform pg_notify(channel, 'errands');
            quiet := quiet || array(select flow_id from {{schema}}.node where job_id = any (ended));
            exit;
        end if;
    end loop;
    if quiet <> '{}' then
        with closed as (
            update {{schema}}.flow
            set state = over.state, finished_at = now,
                expires_at = now + (keep ->> over.state)::float8 * interval '1 second'
            from (
                -- state_at_end in holdfast/flow/model.py
                select id, case when cancel_asked then 'cancelled' when failed = 0 then 'succeeded'
                    when exists (
                        select from {{schema}}.outcome
                        where job_id = any (array(
                            select job_id from {{schema}}.node where flow_id = flow.id))
                        and outcome.state in ('failed', 'expired')
                    ) then 'failed' else 'cancelled' end as state
                from {{schema}}.flow where id = any (quiet) and open = 0 and finished_at is null
            ) as over
            where flow.id = any (quiet) and flow.id = over.id
            returning flow.id, flow.parent
        )
        insert into {{schema}}.errand (flow_id, kind, job_id, at)
        select id, 'parent', parent, now from closed where parent is not null order by id;
        get diagnostics owed = row_count;
        if owed > 0 then
            perform pg_notify(channel, 'errands');
        end if;
    end if;
end $$;

-- Ends nodes that succeeded and have nothing else to write, with all that follows: the short way of
-- `lock_flows_of`, `finish.sql` and `settle`, in one call. Answers with every node that moved.
create function {{schema}}.succeed_nodes(
    now timestamptz, channel text, jobs uuid[], fences bigint[], results text[], wait text, most int
)
returns table (job_id uuid, queue text, task text, source text, target text) language plpgsql
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
    if gone.jobs is null then
        return;
    end if;
    return query select *, 'running', 'succeeded' from unnest(gone.jobs, gone.queues, gone.tasks);
    return query select * from {{schema}}.settle(now, channel, gone.jobs,
        array_fill('succeeded'::text, array[cardinality(gone.jobs)]), true, '{}', '{}', '{}', most);
end $$;
