create table job (
    id integer primary key,
    state integer not null default 0,
    args text not null,
    started_at real,
    finished_at real
);
create index job_ready on job (id) where state = 0;
