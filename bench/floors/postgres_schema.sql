-- As lean as a queue that keeps its history can be: numbers for ids, no guard, no queue, no priority.
create table job (id bigint primary key, args text not null);
create table ready (id bigint primary key);
create table lease (id bigint primary key, claimed_at timestamptz not null);
create table outcome (
    id bigint primary key,
    claimed_at timestamptz not null,
    finished_at timestamptz not null
);
