CREATE INDEX holdfast_audit_by on holdfast_audit ("by", begun_at, id);

CREATE INDEX holdfast_audit_newest on holdfast_audit (begun_at, id);

CREATE INDEX holdfast_audit_target on holdfast_audit (target, begun_at, id) where target <> '';

CREATE INDEX holdfast_bucket_opens on holdfast_bucket (opens_at) where has_waiting and opens_at is not null;

CREATE INDEX holdfast_bucket_rings on holdfast_bucket (name) where rings;

CREATE INDEX holdfast_deadline_at on holdfast_deadline (at);

CREATE INDEX holdfast_flow_expires on holdfast_flow (expires_at) where expires_at is not null;

CREATE UNIQUE INDEX holdfast_flow_key on holdfast_flow (unique_key)
where unique_key is not null and finished_at is null;

CREATE INDEX holdfast_flow_live on holdfast_flow (id) where finished_at is null;

CREATE INDEX holdfast_flow_parent on holdfast_flow (parent) where parent is not null;

CREATE INDEX holdfast_frames_live on holdfast_frames (at) where keep = 'live';

CREATE INDEX holdfast_ledger_expiry on holdfast_ledger (keep_until) where decision not in ('failed', 'waiting');

CREATE INDEX holdfast_ledger_job on holdfast_ledger (job_id) where job_id is not null;

CREATE INDEX holdfast_ledger_newest on holdfast_ledger (schedule, at desc, scope);

CREATE INDEX holdfast_ledger_open on holdfast_ledger (schedule, at, scope) where decision in ('failed', 'waiting');

CREATE INDEX holdfast_line_fair on holdfast_line (fair, queue, priority) where fair is not null;

CREATE UNIQUE INDEX holdfast_line_of on holdfast_line (queue, priority, task, buckets);

CREATE INDEX holdfast_line_open on holdfast_line (queue, priority, turn) where parked_at is null;

CREATE INDEX holdfast_line_parked on holdfast_line (parked_at, priority, turn) where parked_at is not null;

CREATE UNIQUE INDEX holdfast_node_name on holdfast_node (flow_id, name);

CREATE INDEX holdfast_operation_newest on holdfast_operation (begun_at, id);

CREATE INDEX holdfast_operation_running on holdfast_operation (id) where state = 'running';

CREATE INDEX holdfast_outcome_expires on holdfast_outcome (expires_at) where expires_at is not null;

CREATE INDEX holdfast_outcome_fingerprint on holdfast_outcome (fingerprint, state, job_id)
where fingerprint is not null;

CREATE INDEX holdfast_outcome_unhappy on holdfast_outcome (job_id) where state <> 'succeeded';

CREATE INDEX holdfast_queue_ruled on holdfast_queue (name)
where instr(settings, '"max_running"') or instr(settings, '"aging"');

CREATE UNIQUE INDEX holdfast_ready_job on holdfast_ready (job_id);

CREATE INDEX holdfast_scheduled_due on holdfast_scheduled (due_at);

CREATE INDEX holdfast_series_at on holdfast_series (step, grain, at);

CREATE INDEX holdfast_shelf_expiry on holdfast_shelf (expires_at) where expires_at is not null;

CREATE UNIQUE INDEX holdfast_signal_key on holdfast_signal (job_id, key);

CREATE INDEX holdfast_step_awaits on holdfast_step (job_id, awaits) where awaits is not null;

CREATE INDEX holdfast_suspended_wake on holdfast_suspended (wake_at) where wake_at is not null;

CREATE TABLE holdfast_audit (
    id text primary key,
    "by" text not null,
    verb text not null,
    target text not null,
    which text,
    arguments text,
    begun_at integer not null,
    seen_at integer not null,
    closed_at integer,
    outcome text,
    changed integer not null default 0,
    error text
) without rowid;

CREATE TABLE holdfast_blocked (
    job_id text primary key,
    queue text not null,
    priority integer not null,
    seq integer not null,
    task text not null,
    attempts integer not null,
    crashes integer not null,
    fence integer not null,
    ties integer not null
) without rowid;

CREATE TABLE holdfast_bucket (
    name text primary key,
    in_use integer not null default 0,
    override text,
    shut_until integer,
    throttles integer not null default 0,
    has_waiting integer not null default 0,
    opens_at integer,
    touched_at integer not null
, needs integer, state text, rings integer not null default 0) without rowid;

CREATE TABLE holdfast_counter (
    topic text not null,
    name text not null,
    n integer not null,
    primary key (topic, name)
) without rowid;

CREATE TABLE holdfast_deadline (
    job_id text primary key,
    at integer not null
) without rowid;

CREATE TABLE holdfast_errand (
    id integer primary key autoincrement,
    flow_id text not null,
    kind text not null,
    job_id text,
    what text,
    at integer not null
);

CREATE TABLE holdfast_ever (
    queue text not null,
    task text not null,
    times blob not null,
    primary key (queue, task)
) without rowid;

CREATE TABLE holdfast_failure (
    fingerprint text primary key,
    task text not null,
    kind text not null,
    times integer not null,
    first_at integer not null,
    last_at integer not null,
    muted_until integer,
    note text
) without rowid;

CREATE TABLE holdfast_failure_sample (
    fingerprint text primary key,
    at integer not null,
    job_id text not null,
    attempt integer not null,
    message text not null,
    traceback text
) without rowid;

CREATE TABLE holdfast_flow (
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

CREATE TABLE holdfast_flow_graph (
    flow_id text not null,
    n integer not null,
    graph text not null,
    primary key (flow_id, n)
) without rowid;

CREATE TABLE holdfast_frames (
    job_id text not null,
    stream text not null,
    fence integer not null,
    last integer not null,
    number integer not null,
    section text not null,
    since integer not null,
    again integer not null,
    whole integer not null,
    closes integer not null,
    keep text not null,
    at integer not null,
    data text not null,
    primary key (job_id, stream, fence, last)
) without rowid;

CREATE TABLE holdfast_gate (
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

CREATE TABLE holdfast_happening (
    job_id text not null,
    n integer not null,
    at integer not null,
    what text not null,
    attempt integer not null,
    fence integer not null,
    worker_id text,
    claimed_at integer,
    due_at integer,
    "by" text,
    kind text,
    fingerprint text,
    message text,
    traceback text,
    primary key (job_id, n)
) without rowid;

CREATE TABLE holdfast_job (
    id text primary key not null,
    task text not null,
    created_at integer not null,
    policy text not null,
    tags text,
    headers text,
    unique_key text,
    unique_states text,
    args text not null
, passes text);

CREATE TABLE holdfast_leader (
    role text primary key,
    worker_id text not null,
    expires_at integer not null
) without rowid;

CREATE TABLE holdfast_lease (
    job_id text primary key,
    queue text not null,
    priority integer not null,
    seq integer not null,
    task text not null,
    attempts integer not null,
    crashes integer not null,
    fence integer not null,
    ties integer not null,
    cancel_requested_at integer,
    ready_at integer not null,
    worker_id text not null,
    claimed_at integer not null,
    timeout_at integer,
    ahead integer not null default 0
, buckets text, costs text, spent text) without rowid;

CREATE TABLE holdfast_ledger (
    schedule text not null,
    scope text not null,
    at integer not null,
    decision text not null,
    reason text not null,
    recorded_at integer not null,
    keep_until integer not null,
    job_id text,
    primary key (schedule, scope, at)
) without rowid;

CREATE TABLE holdfast_limit_rule (
    name text primary key,
    settings text not null,
    edited integer not null default 0,
    retired integer not null default 0,
    revision integer not null default 1
) without rowid;

CREATE TABLE holdfast_line (
    id integer primary key,
    queue text not null,
    priority integer not null,
    task text not null,
    buckets text not null,
    turn integer not null,
    parked_at text
, weight integer not null default 1, fair text, labels text, costly integer not null default 0, need integer not null default 1, aside integer not null default 0);

CREATE TABLE holdfast_measure (
    minute integer not null,
    source text not null,
    queue text not null,
    task text not null,
    number integer not null,
    times blob not null,
    primary key (minute, source, queue, task)
) without rowid;

CREATE TABLE holdfast_migration (
    version integer primary key,
    name text not null,
    checksum text not null,
    applied_at integer not null
);

CREATE TABLE holdfast_move (
    minute integer not null,
    queue text not null,
    task text not null,
    source text not null,
    target text not null,
    what text not null,
    jobs integer not null,
    primary key (minute, queue, task, source, target, what)
) without rowid;

CREATE TABLE holdfast_node (
    job_id text primary key,
    flow_id text not null,
    name text not null,
    is_sink integer not null,
    is_bad integer not null default 0, -- skipped because another failed, expired or was cancelled
    is_let_go integer not null default 0, -- cancelled because nobody needs it: its end counts for nothing where a node was skipped
    delay real,
    inputs text
, edges text, is_unsettled integer not null default 0) without rowid;

CREATE TABLE holdfast_operation (
    id text primary key,
    request text not null,
    state text not null,
    revision integer not null,
    progress text not null,
    hand text,
    begun_at integer not null,
    advanced_at integer not null
) without rowid;

CREATE TABLE holdfast_operation_kept (
    operation text not null,
    number integer not null,
    jobs text not null,
    primary key (operation, number)
) without rowid;

CREATE TABLE holdfast_outcome (
    job_id text primary key,
    state text not null,
    queue text not null,
    priority integer not null,
    seq integer not null,
    task text not null,
    attempts integer not null,
    crashes integer not null,
    fence integer not null,
    ties integer not null,
    cancel_requested_at integer,
    worker_id text,
    claimed_at integer,
    deadline_at integer,
    finished_at integer not null,
    expires_at integer, -- null: never
    reason text,
    result text
, fingerprint text) without rowid;

CREATE TABLE holdfast_progress (
    job_id text primary key,
    fraction real,
    message text,
    checkpoint text,
    at integer not null
) without rowid;

CREATE TABLE holdfast_queue (
    name text primary key,
    paused integer not null default 0,
    cool_until integer,
    throttles integer not null default 0,
    settings text not null default '{}' -- what differs from the defaults
) without rowid;

CREATE TABLE holdfast_ready (
    line integer not null default 0,
    queue text not null,
    priority integer not null,
    seq integer not null,
    job_id text not null,
    task text not null,
    attempts integer not null,
    crashes integer not null,
    fence integer not null,
    ties integer not null,
    ready_at integer not null,
    primary key (line, queue, priority, seq)
) without rowid;

CREATE TABLE holdfast_rolling (
    id integer primary key check (id = 1),
    closed integer not null,
    rolled integer not null
);

CREATE TABLE holdfast_schedule (
    name text primary key,
    definition text not null,
    rule text not null,
    keep real not null,
    edited integer not null,
    revision integer not null,
    created_at integer not null,
    changed_at integer,
    declared_at integer,
    paused integer not null default 0,
    paused_at integer,
    resumed_at integer,
    error text,
    error_at integer,
    -- When the program started whose definition this is, and when it was last declared so.
    code_since integer,
    code_seen_at integer,
    -- The definition that an older running program declares instead, and when it last did.
    rival text,
    rival_at integer,
    -- The oldest and the newest of the fired plans whose rows were pruned.
    pruned_from integer,
    pruned_until integer
) without rowid;

CREATE TABLE holdfast_schedule_cursor (
    schedule text not null,
    scope text not null,
    at integer not null,
    primary key (schedule, scope)
) without rowid;

CREATE TABLE holdfast_scheduled (
    job_id text primary key,
    queue text not null,
    priority integer not null,
    seq integer not null,
    task text not null,
    attempts integer not null,
    crashes integer not null,
    fence integer not null,
    ties integer not null,
    reason text,
    due_at integer not null
) without rowid;

CREATE TABLE holdfast_series (
    step integer not null,
    queue text not null,
    task text not null,
    at integer not null,
    grain text not null,
    counts text not null,
    times blob not null,
    primary key (step, queue, task, at)
) without rowid;

CREATE TABLE holdfast_shelf (
    kind text not null,
    key text not null,
    value text not null,
    revision integer not null,
    expires_at integer,
    primary key (kind, key)
) without rowid;

CREATE TABLE holdfast_signal (
    job_id text not null,
    n integer not null,
    name text not null,
    value text,
    key text not null,
    taken_by text,
    at integer not null,
    primary key (job_id, n)
) without rowid;

CREATE TABLE holdfast_skipped_gate (
    flow_id text not null,
    job_id text not null,
    n integer not null,
    need integer not null,
    primary key (flow_id, job_id, n)
) without rowid;

CREATE TABLE holdfast_started (
    schedule text not null,
    scope text not null,
    at integer not null,
    job_id text not null,
    primary key (schedule, scope, at)
) without rowid;

CREATE TABLE holdfast_step (
    job_id text not null,
    name text not null,
    n integer not null,
    fence integer not null,
    tries integer not null,
    result text,
    kind text,
    message text,
    version text,
    until integer,
    at integer not null, awaits text, undo text,
    primary key (job_id, name)
) without rowid;

CREATE TABLE holdfast_suspended (
    job_id text primary key,
    queue text not null,
    priority integer not null,
    seq integer not null,
    task text not null,
    attempts integer not null,
    crashes integer not null,
    fence integer not null,
    ties integer not null,
    reason text,
    wake_at integer
) without rowid;

CREATE TABLE holdfast_tally (
    queue text not null,
    task text not null,
    state text not null,
    jobs integer not null,
    primary key (queue, task, state)
) without rowid;

CREATE TABLE holdfast_total (
    queue text not null,
    task text not null,
    what text not null,
    jobs integer not null,
    primary key (queue, task, what)
) without rowid;

CREATE TABLE holdfast_traffic (
    minute integer not null,
    queue text not null,
    task text not null,
    what text not null,
    jobs integer not null,
    primary key (minute, queue, task, what)
) without rowid;

CREATE TABLE holdfast_turn (
    queue text not null,
    priority integer not null,
    turn integer not null,
    primary key (queue, priority)
) without rowid;

CREATE TABLE holdfast_unique_key (
    key text primary key,
    job_id text not null,
    states text not null,
    until integer
) without rowid;

CREATE TABLE holdfast_weight (
    fair text primary key,
    weight integer not null
) without rowid;

CREATE TABLE holdfast_worker (
    id text primary key,
    name text not null,
    host text not null,
    pid integer not null,
    queues text not null,
    tasks text not null,
    version text not null,
    started_at integer not null,
    heartbeat_at integer not null,
    expires_at integer not null,
    lease integer not null,
    alive_since integer not null,
    written_until integer not null,
    facts text not null default '{}'
, drain_requested_at integer) without rowid;

CREATE TABLE holdfast_worker_count (
    name text primary key,
    n integer not null
) without rowid;

CREATE TABLE sqlite_sequence(name,seq);

CREATE VIEW holdfast_place (
    job_id, state, ended, queue, priority, seq, task, attempts, crashes, fence, ties,
    cancel_requested_at, worker_id, claimed_at, ahead, due_at,
    deadline_at, finished_at, expires_at, reason, result
) as
select
    job_id, cast('ready' as text), 0, queue, priority, seq, task, attempts, crashes, fence, ties,
    cast(null as integer), cast(null as text), cast(null as integer), cast(0 as integer),
    cast(null as integer), cast(null as integer), cast(null as integer), cast(null as integer),
    cast(null as text), cast(null as text)
from holdfast_ready
union all
select
    job_id, cast('running' as text), 0, queue, priority, seq, task, attempts, crashes, fence, ties,
    cancel_requested_at, worker_id, claimed_at, ahead, cast(null as integer), cast(null as integer),
    cast(null as integer), cast(null as integer), cast(null as text), cast(null as text)
from holdfast_lease
union all
select
    job_id, cast('scheduled' as text), 0, queue, priority, seq, task, attempts, crashes, fence, ties,
    cast(null as integer), cast(null as text), cast(null as integer), cast(0 as integer), due_at,
    cast(null as integer), cast(null as integer), cast(null as integer), reason, cast(null as text)
from holdfast_scheduled
union all
select
    job_id, cast('suspended' as text), 0, queue, priority, seq, task, attempts, crashes, fence, ties,
    cast(null as integer), cast(null as text), cast(null as integer), cast(0 as integer), wake_at,
    cast(null as integer), cast(null as integer), cast(null as integer), reason, cast(null as text)
from holdfast_suspended
union all
select
    job_id, cast('blocked' as text), 0, queue, priority, seq, task, attempts, crashes, fence, ties,
    cast(null as integer), cast(null as text), cast(null as integer), cast(0 as integer),
    cast(null as integer), cast(null as integer), cast(null as integer), cast(null as integer),
    cast(null as text), cast(null as text)
from holdfast_blocked
union all
select
    job_id, state, 1, queue, priority, seq, task, attempts, crashes, fence, ties,
    cancel_requested_at, worker_id, claimed_at, cast(0 as integer), cast(null as integer),
    deadline_at, finished_at, expires_at, reason, result
from holdfast_outcome;
