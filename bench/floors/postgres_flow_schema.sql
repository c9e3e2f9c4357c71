-- Beside the tables of plain jobs. `waits` is how many edges a node still waits for.
create table flow (id bigint primary key, open int not null) with (fillfactor = 50);
create table node (id bigint primary key, flow_id bigint not null);
create table blocked (id bigint primary key, waits int not null) with (fillfactor = 70);
create table edge (
    upstream bigint not null,
    downstream bigint not null,
    primary key (upstream, downstream)
);
