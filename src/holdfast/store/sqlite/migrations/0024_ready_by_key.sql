-- The columns of the key come first. SQLite 3.40 says of any other order that values are NULL which are
-- not, when it checks the file: `doctor --deep` then advised to restore a backup.
create table holdfast_ready_kept as select * from holdfast_ready;
drop table holdfast_ready;
create table holdfast_ready (
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
insert into holdfast_ready
    (line, queue, priority, seq, job_id, task, attempts, crashes, fence, ties, ready_at)
select line, queue, priority, seq, job_id, task, attempts, crashes, fence, ties, ready_at
from holdfast_ready_kept order by line, queue, priority, seq;
drop table holdfast_ready_kept;
create unique index holdfast_ready_job on holdfast_ready (job_id);
