-- The same rows as on Postgres: a job is where its row is, and its outcome stays. Ids are minted by who
-- writes a graph, because its edges name them. `waits` is how many edges a node still waits for.
create table job (id text primary key, args text not null);
create table ready (id text primary key) without rowid;
create table lease (id text primary key, claimed_at real not null) without rowid;
create table outcome (id text primary key, claimed_at real not null, finished_at real not null) without rowid;
create table flow (id text primary key, open integer not null) without rowid;
create table node (id text primary key, flow_id text not null) without rowid;
create table blocked (id text primary key, waits integer not null) without rowid;
create table edge (upstream text, downstream text, primary key (upstream, downstream)) without rowid;
