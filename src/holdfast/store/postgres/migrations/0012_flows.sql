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

-- `is_bad`: it was skipped because another node failed, expired or was cancelled. The edges to the nodes that
-- wait for it lie in its row, which its end reads: `behind` has these nodes, and `wants` for each of them
-- 32 × the number of its gate + the ends that win. Nobody takes edges away when they are decided: an edge counts
-- if its gate is there when the node ends, and a new gate never gets a number that an old edge names.
-- `is_unsettled`: it has ended, and its end is not counted yet.
-- `is_let_go`: it is cancelled because nobody needs it, so its end counts for nothing where a node was skipped.
create table {{schema}}.node (
    job_id uuid primary key,
    flow_id uuid not null,
    name text collate "C" not null,
    is_sink boolean not null,
    is_bad boolean not null default false,
    is_unsettled boolean not null default false,
    is_let_go boolean not null default false,
    delay float8,
    inputs text,
    behind uuid[],
    wants bigint[]
);
create unique index node_name on {{schema}}.node (flow_id, name);
create index node_delayed on {{schema}}.node (job_id) where delay > 0;
create index node_unsettled on {{schema}}.node (flow_id) where is_unsettled;

-- A gate is there until it is met, or its node ends. `is_bad`: an edge was lost to a bad end.
create table {{schema}}.gate (
    job_id uuid not null,
    n bigint not null,
    flow_id uuid not null,
    need int not null,
    total int not null,
    won int not null default 0,
    lost int not null default 0,
    is_bad boolean not null default false,
    losers text collate "C" not null,
    primary key (job_id, n)
);

-- The gates that were not met of nodes that were skipped for no bad end. What they wait for may still end badly: the end
-- of the flow looks, and empties this.
create table {{schema}}.skipped_gate (
    flow_id uuid not null,
    job_id uuid not null,
    n bigint not null,
    need int not null,
    primary key (flow_id, job_id, n)
);

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

-- What a worker needs to know of nodes before they begin, without those that may simply begin: they take no
-- results, and their flow is not being cancelled. `upstream` is the last node whose result is taken alone, as
-- holdfast/flow/inputs.py writes it; whoever asks knows whether it is the only one. Behind the nodes come the
-- results of those upstreams that have one, each once and as a row without `closing`.
create function {{schema}}.facts_of(jobs uuid[])
returns table (job_id uuid, inputs text, closing boolean, upstream uuid, result text) language plpgsql
set enable_nestloop = off set enable_seqscan = off set enable_bitmapscan = off set jit = off
set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
begin
    return query
        with mine as materialized (
            select job_id, flow_id, inputs,
                case when inputs like '%{"type":"result","job":"____________________________________"}]]'
                    then substr(inputs, length(inputs) - 39, 36)::uuid end as upstream
            from {{schema}}.node where job_id = any (jobs)
        ),
        cancelling as (
            select id from {{schema}}.flow
            where id = any (array(select flow_id from mine)) and state = 'cancelling'
        )
        select mine.job_id, mine.inputs, cancelling.id is not null, mine.upstream, null::text
        from mine left join cancelling on cancelling.id = mine.flow_id
        where mine.inputs is not null or cancelling.id is not null
        union all
        select job_id, null, null, null, result from {{schema}}.outcome
        where job_id = any (array(select upstream from mine)) and state = 'succeeded';
end $$;

-- Nodes may have been skipped for no bad end while others that they waited for were live. This marks those of which
-- such a node has ended badly since, and counts the sinks among them. The flows have no live node, and are locked.
create function {{schema}}.fail_late(flows uuid[]) returns void language plpgsql
set enable_nestloop = off set enable_mergejoin = off set enable_seqscan = off set enable_bitmapscan = off
set jit = off set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
begin
    with recursive kept as materialized (
        delete from {{schema}}.skipped_gate where flow_id = any (flows)
        returning flow_id, job_id, n, need
    ),
    behind as materialized (
        select node.job_id as upstream, node.name, node.is_bad, node.is_let_go, kept.job_id, kept.n, kept.need, edge.wants
        from (
            select job_id, name, is_bad, is_let_go, unnest(behind) as behind, unnest(wants) as wants
            from {{schema}}.node where flow_id = any (array(select flow_id from kept))
        ) as node
        cross join lateral (select node.wants >> 5 as n, node.wants) as edge
        join kept on kept.job_id = node.behind and kept.n = edge.n
    ),
    ended as materialized (
        select job_id, state from {{schema}}.outcome
        where job_id = any (array(select upstream from behind))
    ),
    edge as materialized (
        select behind.*, ended.state,
            wants & case ended.state when 'succeeded' then 1 when 'failed' then 2 when 'cancelled' then 4
                when 'expired' then 8 else 16 end <> 0 as wins
        from behind join ended on ended.job_id = behind.upstream
    ),
    impossible as materialized (
        select job_id, n from edge group by job_id, n having count(*) filter (where wins) < max(need)
    ),
    lost as materialized (
        select edge.* from edge
        join impossible on impossible.job_id = edge.job_id and impossible.n = edge.n
        where not edge.wins and not edge.is_let_go
    ),
    bad (job_id) as (
        select upstream from lost
        where state in ('failed', 'expired', 'cancelled') or (state = 'skipped' and is_bad)
        union
        select lost.job_id from bad join lost on lost.upstream = bad.job_id
    ),
    verdict as materialized (
        select lost.job_id, min(format('''%s'' is %s', lost.name, lost.state)) as because
        from lost join bad on bad.job_id = lost.upstream group by lost.job_id
    ),
    told as (
        update {{schema}}.outcome set reason = verdict.because from verdict
        where outcome.job_id = any (array(select job_id from verdict)) and outcome.job_id = verdict.job_id
    ),
    marked as (
        update {{schema}}.node set is_bad = true where job_id = any (array(select job_id from verdict))
        returning flow_id, is_sink
    ),
    tally as (
        select flow_id, count(*) as failed from marked where is_sink group by flow_id
    )
    update {{schema}}.flow set failed = flow.failed + tally.failed from tally
    where flow.id = any (flows) and flow.id = tally.flow_id;
end $$;

-- What the end of nodes does to their flows. The flows are locked.
--
-- Rounds: the edges of all nodes that ended are counted at their gates; nodes whose gates are all met
-- are released, and nodes with an impossible gate are skipped. What was skipped are the ended nodes of
-- the next round. When `most` nodes are skipped, an errand is owed for the rest.
--
-- `ended`, `states`: nodes, and how they ended. `fresh`: they counted as live until now; if not, `judge`
-- names their flows, and of their edges only those to `gated` nodes count whose `wants` is at least `since`: they are
-- newer than the ends. `idle`: those of the ended nodes that were blocked, so that their own gates are there.
-- `judge`: flows that end if none of their nodes is live. `gated`: nodes of them whose gates are judged (null: all).
-- `ungated`: blocked nodes that need no gate. Answers with how many nodes of a queue and task left their blocked
-- place, and where they went.
create function {{schema}}.settle(
    now timestamptz, channel text, ended uuid[], states text[], fresh boolean, idle uuid[],
    judge uuid[], gated uuid[], since bigint, ungated uuid[], most int
)
returns table (queue text, task text, target text, moved bigint) language plpgsql
set enable_nestloop = off set enable_mergejoin = off set enable_seqscan = off set enable_bitmapscan = off
set jit = off set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
    targets uuid[] := gated;
    quiet uuid[] := judge;
    found record;
    gone record;
    skips int := 0;
    owed int;
begin
    if idle <> '{}' then
        delete from {{schema}}.gate where job_id = any (idle);
    end if;
    if gated is null then
        targets := array(select job_id from {{schema}}.node where flow_id = any (judge));
    end if;
    loop
        -- Count the ends at their gates, and judge the gates.
        with over as materialized (
            -- the bits are BITS in holdfast/flow/model.py
            select node.job_id, node.flow_id, node.name, node.is_sink, node.behind, node.wants, given.state,
                fresh or node.is_unsettled as is_new,
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
            select flow_id, count(*) as nodes, count(*) filter (where is_sink and is_bad) as failed
            from over where fresh group by flow_id
        ),
        taken as (
            update {{schema}}.flow set open = flow.open - tally.nodes,
                failed = flow.failed + tally.failed
            from tally
            where flow.id = any (array(select flow_id from over)) and flow.id = tally.flow_id
            returning flow.id, flow.state, flow.open
        ),
        flow as materialized (
            select * from taken
            union all
            select id, state, open from {{schema}}.flow where id = any (judge)
        ),
        decided as materialized (
            select edge.job_id, edge.wants >> 5 as n, count(*) filter (where wins) as won,
                count(*) filter (where not wins) as lost,
                bool_or(not wins and edge.is_bad) as is_bad,
                coalesce(
                    min(format('''%s'' is %s', edge.name, edge.state)) filter (where not wins and edge.is_bad),
                    min(format('''%s'' is %s', edge.name, edge.state)) filter (where not wins)
                ) as because
            from (
                select unnest(behind) as job_id, unnest(wants) as wants, name, state, is_new, is_bad, bit from over
            ) as edge
            cross join lateral (select edge.wants & edge.bit <> 0 as wins) as judged
            where edge.is_new
                or edge.wants >= since and (edge.job_id in (select * from unnest(gated))) is true
            group by edge.job_id, edge.wants >> 5
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
        judged as materialized (
            select counts.*, flow.state = 'running' and counts.won >= counts.need as met,
                flow.state = 'running' and counts.lost > counts.total - counts.need as impossible
            from counts join flow on flow.id = counts.flow_id
        )
        select array(select job_id from judged group by job_id having bool_and(met)) as free,
            array(select id from flow where open = 0) as quiet,
            array_agg(place) filter (where met) as shut,
            array_agg(place) filter (where changed and not met) as counted,
            array_agg(won) filter (where changed and not met) as won,
            array_agg(lost) filter (where changed and not met) as lost,
            array_agg(is_bad) filter (where changed and not met) as bad,
            array_agg(job_id) filter (where impossible) as skipped,
            array_agg(n) filter (where impossible) as numbers,
            array_agg(because) filter (where impossible) as reasons,
            array_agg(is_bad) filter (where impossible) as bads,
            array_agg(job_id) filter (where met and not impossible and losers = 'cancel') as winners,
            array_agg(flow_id) filter (where met and not impossible and losers = 'cancel') as owing
        into found
        from judged;

        quiet := quiet || found.quiet;
        if not fresh then
            update {{schema}}.node set is_unsettled = false where job_id = any (ended) and is_unsettled;
        end if;
        -- by place: nobody moves a gate while its flow is locked
        if found.counted is not null then
            update {{schema}}.gate set won = given.won, lost = given.lost, is_bad = given.is_bad
            from unnest(found.counted, found.won, found.lost, found.bad) as given (place, won, lost, is_bad)
            where gate.ctid = any (found.counted) and gate.ctid = given.place;
        end if;
        if found.shut is not null then
            delete from {{schema}}.gate where ctid = any (found.shut);
        end if;
        if found.winners is not null then
            insert into {{schema}}.errand (flow_id, kind, job_id, at)
            select flow_id, 'losers', job_id, now
            from unnest(found.owing, found.winners) as met (flow_id, job_id) order by job_id;
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
                    select gone.*, node.delay from gone
                    left join (
                        select job_id, delay from {{schema}}.node
                        where job_id = any (found.free) and delay > 0
                    ) as node on node.job_id = gone.job_id
                ),
                to_ready as (
                    insert into {{schema}}.ready
                        (job_id, queue, priority, task, attempts, crashes, fence, ties, since)
                    select job_id, queue, priority, task, attempts, crashes, fence, ties, now
                    from going where delay is null order by job_id
                ),
                to_scheduled as (
                    insert into {{schema}}.scheduled (job_id, due_at, queue, priority, task,
                        attempts, crashes, fence, ties, reason)
                    select job_id, now + delay * interval '1 second', queue, priority, task,
                        attempts, crashes, fence, ties, 'released'
                    from going where delay is not null
                )
                select queue, task, case when delay is null then 'ready' else 'scheduled' end as went, count(*)
                from going group by queue, task, went;
        end if;

        exit when found.skipped is null;
        with verdict as materialized (
            select distinct on (job_id) job_id, because, is_bad
            from unnest(found.skipped, found.numbers, found.reasons, found.bads) as given (job_id, n, because, is_bad)
            order by job_id, is_bad desc, n
        ),
        no_gates as (
            delete from {{schema}}.gate where job_id = any (found.skipped)
            returning flow_id, job_id, n, need
        ),
        kept_gates as (
            insert into {{schema}}.skipped_gate (flow_id, job_id, n, need)
            select * from no_gates
            where job_id in (select job_id from verdict where not is_bad)
        ),
        gone as (
            delete from {{schema}}.blocked where job_id = any (found.skipped)
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
        return query
            select queue, task, 'skipped', count(*)
            from unnest(gone.queues, gone.tasks) as skipped (queue, task) group by queue, task;
        ended := gone.jobs;
        states := array_fill('skipped'::text, array[cardinality(ended)]);
        fresh := true;
        judge := '{}';
        targets := '{}';
        ungated := '{}';
        skips := skips + cardinality(ended);
        if skips >= most then
            with over as materialized (
                update {{schema}}.node set is_unsettled = true where job_id = any (ended)
                returning flow_id, is_sink and is_bad as failed
            ),
            tally as materialized (
                select flow_id, count(*) as nodes, count(*) filter (where failed) as failed
                from over group by flow_id
            ),
            counted as (
                update {{schema}}.flow set open = flow.open - tally.nodes,
                    failed = flow.failed + tally.failed
                from tally
                where flow.id = any (array(select flow_id from tally)) and flow.id = tally.flow_id
            )
            insert into {{schema}}.errand (flow_id, kind, at)
            select flow_id, 'settle', now from tally order by flow_id;
            perform pg_notify(channel, 'errands');
            quiet := quiet || array(select flow_id from {{schema}}.node where job_id = any (ended));
            exit;
        end if;
    end loop;
    if quiet <> '{}' then
        if exists (select from {{schema}}.skipped_gate where flow_id = any (quiet)) then
            perform {{schema}}.fail_late(array(
                select id from {{schema}}.flow where id = any (quiet) and open = 0 and finished_at is null));
        end if;
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
-- `lock_flows_of`, `finish.sql` and `settle`, in one call. Answers with the moves that it made: `moved` nodes
-- of one queue and task. 0 `moved`: the node was refused.
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
    return query
        select null::uuid, queue, task, 'blocked', target, moved from {{schema}}.settle(now, channel, gone.jobs,
            array_fill('succeeded'::text, array[cardinality(gone.jobs)]), true, '{}', '{}', '{}', 0, '{}', most);
end $$;
