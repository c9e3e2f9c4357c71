-- Flows: jobs that wait for jobs. See holdfast/flow/model.py for the words.

create table holdfast_flow (
    id text primary key,
    name text not null,
    state text not null,
    total integer not null,
    open integer not null, -- its live nodes
    failed integer not null default 0, -- its sinks that ended badly
    epoch integer not null default 1,
    cancel_asked integer not null default 0,
    unique_key text,
    tags text,
    parent text,
    keep text not null, -- seconds by state
    reason text,
    created_at integer not null,
    finished_at integer,
    expires_at integer
) without rowid;
create unique index holdfast_flow_key on holdfast_flow (unique_key)
where unique_key is not null and finished_at is null;
create index holdfast_flow_expires on holdfast_flow (expires_at) where expires_at is not null;
create index holdfast_flow_live on holdfast_flow (id) where finished_at is null;

-- What was written for those who show the graph: first the whole, then each growth.
create table holdfast_flow_graph (
    flow_id text not null,
    n integer not null,
    graph text not null,
    primary key (flow_id, n)
) without rowid;

create table holdfast_node (
    job_id text primary key,
    flow_id text not null,
    name text not null,
    is_sink integer not null,
    is_bad integer not null default 0, -- skipped because another failed, expired or was cancelled
    is_let_go integer not null default 0, -- cancelled because nobody needs it: its end counts for nothing where a node was skipped
    delay real,
    inputs text
) without rowid;
create unique index holdfast_node_name on holdfast_node (flow_id, name);

-- A gate is there until it is met, or its node ends.
create table holdfast_gate (
    job_id text not null,
    n integer not null,
    flow_id text not null,
    need integer not null,
    total integer not null,
    won integer not null default 0,
    lost integer not null default 0,
    is_bad integer not null default 0, -- an edge was lost to a bad end
    losers text not null,
    primary key (job_id, n)
) without rowid;
create index holdfast_gate_flow on holdfast_gate (flow_id);

-- An edge is there until it is decided.
create table holdfast_edge (
    upstream text not null,
    downstream text not null,
    n integer not null,
    wants integer not null,
    primary key (upstream, downstream, n)
) without rowid;
create index holdfast_edge_downstream on holdfast_edge (downstream, n);

-- The gates that were not met of nodes that were skipped for no bad end. What they wait for may still end badly: the end
-- of the flow looks, and empties this.
create table holdfast_skipped_gate (
    flow_id text not null,
    job_id text not null,
    n integer not null,
    need integer not null,
    primary key (flow_id, job_id, n)
) without rowid;

create table holdfast_errand (
    id integer primary key autoincrement,
    flow_id text not null,
    kind text not null,
    job_id text,
    what text,
    at integer not null
);
