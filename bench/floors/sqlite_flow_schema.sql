-- Ids are minted by who writes a graph, because its edges name them. `waits` is how many edges a node
-- still waits for; a node that waits for none is ready.
create table flow (id text primary key, open integer not null) without rowid;
create table node (
    id text primary key,
    flow_id text not null,
    waits integer not null,
    state integer not null default 0,
    args text not null,
    started_at real,
    finished_at real
) without rowid;
create index node_ready on node (id) where state = 0 and waits = 0;
create table edge (upstream text, downstream text, primary key (upstream, downstream)) without rowid;
