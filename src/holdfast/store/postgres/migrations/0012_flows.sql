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

-- `is_bad`: it was skipped because another node failed or expired.
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

-- A gate is there until it is met, or its node ends. `is_bad`: an edge was lost to a failure.
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
-- statements must follow each other without a round trip between them: each has a snapshot of its
-- own, and the second must see what was committed before the first got its locks.
-- Their settings make every join a hash join and every look at a table a look by key, whatever the
-- statistics say: a plan that was made while a table was empty stays right when it is full.

-- Locks the flows of these jobs, in order of id. Whatever changes a graph, its gates or the state of
-- a node takes these locks first, then leases, then gates, then places: so all changes of one flow
-- come one after the other, and nobody waits in a circle. `wait` bounds the wait for a lock (null: as
-- the transaction does). With `pass_by` a flow that somebody else has locked is not waited for.
-- Answers with the jobs whose flow is locked now, and those that have none.
create function {{schema}}.lock_flows_of(jobs uuid[], wait text, pass_by boolean)
returns setof uuid language plpgsql
set enable_nestloop = off set enable_seqscan = off set jit = off
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
-- the next round. At most about `most` nodes are skipped, and an errand is owed for the rest.
--
-- `ended`, `states`: nodes, and how they ended. `fresh`: they counted as live until now. `idle`: those
-- of them that were blocked, so that their own gates are there. `judge`: flows of which all gates are
-- judged, and that end if none of their nodes is live. `ungated`: blocked nodes that need no gate.
-- Answers with the nodes that left their blocked place.
create function {{schema}}.settle(
    now timestamptz, channel text, ended uuid[], states text[], fresh boolean, idle uuid[],
    judge uuid[], ungated uuid[], most int
)
returns table (job_id uuid, queue text, task text, target text) language plpgsql
set enable_nestloop = off set enable_seqscan = off set jit = off
as $$
#variable_conflict use_column
declare
    skipped uuid[];
    flows uuid[];
    skips int := 0;
    owes boolean := false;
    moved record;
begin
    if idle <> '{}' then
        delete from {{schema}}.gate where job_id = any (idle);
        delete from {{schema}}.edge where downstream = any (idle);
    end if;
    loop
        skipped := '{}';
        flows := '{}';
        for moved in
            with over as materialized (
                -- the bits are BITS in holdfast/flow/model.py
                select node.job_id, node.flow_id, node.name, node.is_sink, given.state,
                    given.state in ('failed', 'expired')
                        or (given.state = 'skipped' and node.is_bad) as is_bad,
                    case given.state when 'succeeded' then 1 when 'failed' then 2
                        when 'cancelled' then 4 when 'expired' then 8 when 'skipped' then 16
                    end as bit
                from unnest(ended, states) as given (job_id, state)
                join {{schema}}.node on node.job_id = given.job_id
                where node.job_id = any (ended)
            ),
            flow as materialized (
                select id, state, open, failed, cancel_asked, keep, finished_at
                from {{schema}}.flow
                where id = any (array(select flow_id from over))
                or id = any (judge)
            ),
            taken as (
                delete from {{schema}}.edge where upstream = any (ended)
                returning upstream, downstream, n, wants
            ),
            decided as materialized (
                select taken.downstream as job_id, taken.n,
                    count(*) filter (where wins) as won,
                    count(*) filter (where not wins) as lost,
                    bool_or(not wins and over.is_bad) as is_bad,
                    min(format('''%s'' is %s', over.name, over.state))
                        filter (where not wins) as because
                from taken
                join over on over.job_id = taken.upstream
                cross join lateral (select taken.wants & over.bit <> 0 as wins) as judged
                group by taken.downstream, taken.n
            ),
            judged as materialized (
                -- all gates of each node that one of its gates concerns
                select gate.job_id, gate.n, gate.flow_id, gate.losers,
                    counts.won, counts.lost, counts.is_bad,
                    decided.job_id is not null as changed,
                    counts.won + counts.lost < gate.total as has_edges,
                    flow.state = 'running' and counts.won >= gate.need as met,
                    flow.state = 'running' and counts.lost > gate.total - gate.need as impossible,
                    coalesce(decided.because, 'a node that it needs has ended') as because
                from {{schema}}.gate
                join flow on flow.id = gate.flow_id
                left join decided on decided.job_id = gate.job_id and decided.n = gate.n
                cross join lateral (
                    select gate.won + coalesce(decided.won, 0) as won,
                        gate.lost + coalesce(decided.lost, 0) as lost,
                        gate.is_bad or coalesce(decided.is_bad, false) as is_bad
                ) as counts
                where gate.job_id = any (array(
                    select job_id from decided
                    union select job_id from {{schema}}.gate where flow_id = any (judge)
                ))
            ),
            verdict as materialized (
                select job_id, bool_or(impossible) as is_lost,
                    (array_agg(because order by n) filter (where impossible))[1] as because,
                    (array_agg(is_bad order by n) filter (where impossible))[1] as is_bad
                from judged
                group by job_id
                having bool_or(impossible) or bool_and(met)
                union all
                select node.job_id, false, null, false
                from {{schema}}.node
                join flow on flow.id = node.flow_id
                where node.job_id = any (ungated) and flow.state = 'running'
            ),
            shut as materialized (
                select judged.job_id, judged.n, judged.has_edges
                from judged left join verdict on verdict.job_id = judged.job_id
                where judged.met or verdict.is_lost
            ),
            no_gates as (
                delete from {{schema}}.gate
                where gate.job_id = any (array(select job_id from shut))
                and ((gate.job_id, gate.n) in (select job_id, n from shut)) is true
            ),
            no_edges as (
                delete from {{schema}}.edge
                where edge.downstream = any (array(select job_id from shut where has_edges))
                and ((edge.downstream, edge.n) in (select job_id, n from shut)) is true
            ),
            counted as (
                update {{schema}}.gate set won = judged.won, lost = judged.lost,
                    is_bad = judged.is_bad
                from judged
                where gate.job_id = any (array(select job_id from judged where changed))
                and gate.job_id = judged.job_id and gate.n = judged.n and judged.changed
                and ((judged.job_id, judged.n) in (select job_id, n from shut)) is not true
            ),
            owed as (
                insert into {{schema}}.errand (flow_id, kind, job_id, at)
                select flow_id, 'losers', job_id, now from judged
                where met and not impossible and losers = 'cancel'
                order by job_id, n
                returning id
            ),
            leaving as materialized (
                -- in order, as everybody who locks several jobs of one place does
                select blocked.job_id from {{schema}}.blocked
                where blocked.job_id = any (array(select job_id from verdict))
                order by blocked.job_id for update
            ),
            gone as (
                delete from {{schema}}.blocked
                where blocked.job_id = any (array(select job_id from leaving))
                returning job_id, queue, priority, task, attempts, crashes, fence, ties
            ),
            going as materialized (
                select gone.*, node.flow_id, node.is_sink, node.delay, verdict.because,
                    verdict.is_lost, coalesce(verdict.is_bad, false) as is_bad,
                    case when verdict.is_lost then 'skipped'
                        when node.delay > 0 then 'scheduled' else 'ready' end as target
                from gone
                join verdict on verdict.job_id = gone.job_id
                join {{schema}}.node on node.job_id = gone.job_id
                where node.job_id = any (array(select job_id from verdict))
            ),
            to_ready as (
                insert into {{schema}}.ready
                    (job_id, queue, priority, task, attempts, crashes, fence, ties, since)
                select job_id, queue, priority, task, attempts, crashes, fence, ties, now
                from going where target = 'ready' order by job_id
            ),
            to_scheduled as (
                insert into {{schema}}.scheduled (job_id, due_at, queue, priority, task, attempts,
                    crashes, fence, ties, reason)
                select job_id, now + delay * interval '1 second', queue, priority, task, attempts,
                    crashes, fence, ties, 'released'
                from going where target = 'scheduled'
            ),
            to_outcome as (
                insert into {{schema}}.outcome (job_id, state, queue, priority, task, attempts,
                    crashes, fence, ties, finished_at, reason)
                select job_id, 'skipped', queue, priority, task, attempts, crashes, fence, ties,
                    now, because
                from going where is_lost
            ),
            no_deadline as (
                delete from {{schema}}.deadline
                where deadline.job_id = any (array(select job_id from going where is_lost))
            ),
            marked as (
                update {{schema}}.node set is_bad = true
                where node.job_id = any (array(select job_id from going where is_bad))
            ),
            tally as materialized (
                select flow_id, sum(nodes) as nodes,
                    count(*) filter (where is_sink and is_bad) as failed
                from (
                    select flow_id, 1 as nodes, is_sink, is_bad from over where fresh
                    union all
                    select flow_id, 1, is_sink, is_bad from going where is_lost
                    union all
                    select flow_id, 0, false, false from unnest(judge) as asked (flow_id)
                ) as counting
                group by flow_id
            ),
            closing as materialized (
                select flow.id, flow.open - tally.nodes as open, flow.failed + tally.failed as failed,
                    case when flow.finished_at is not null or flow.open > tally.nodes then null
                        when flow.cancel_asked then 'cancelled'
                        when flow.failed + tally.failed > 0 then 'failed'
                        else 'succeeded' end as state,
                    flow.keep
                from tally join flow on flow.id = tally.flow_id
            ),
            counted_down as (
                update {{schema}}.flow as changed
                set open = closing.open, failed = closing.failed,
                    state = coalesce(closing.state, changed.state),
                    finished_at = case when closing.state is null
                        then changed.finished_at else now end,
                    expires_at = case when closing.state is null then changed.expires_at
                        else now + (closing.keep ->> closing.state)::float8 * interval '1 second' end
                from closing
                where changed.id = any (array(select id from closing))
                and changed.id = closing.id
            )
            select going.job_id, going.queue, going.task, going.target, going.flow_id from going
            union all
            (select null, null, null, 'owed', null from owed limit 1)
        loop
            if moved.target = 'owed' then
                owes := true;
                continue;
            end if;
            if moved.target = 'skipped' then
                skipped := skipped || moved.job_id;
                flows := flows || moved.flow_id;
            end if;
            job_id := moved.job_id;
            queue := moved.queue;
            task := moved.task;
            target := moved.target;
            return next;
        end loop;
        exit when skipped = '{}';
        skips := skips + cardinality(skipped);
        if skips >= most then
            insert into {{schema}}.errand (flow_id, kind, at)
            select flow_id, 'settle', now from unnest(flows) as cut_off (flow_id)
            group by flow_id order by flow_id;
            owes := true;
            exit;
        end if;
        ended := skipped;
        states := array_fill('skipped'::text, array[cardinality(skipped)]);
        fresh := false;
        judge := '{}';
        ungated := '{}';
    end loop;
    if owes then
        perform pg_notify(channel, 'errands');
    end if;
end $$;
