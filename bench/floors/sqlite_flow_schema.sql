-- Beside the table of plain jobs, whose state 3 is blocked. `waits` is how many edges a node waits for.
create table flow (id integer primary key, open integer not null);
create table node (id integer primary key, flow_id integer not null, waits integer not null);
create table edge (upstream integer, downstream integer, primary key (upstream, downstream)) without rowid;
