-- Costs, rates, budgets, and turns by weight.

-- `needs`: what the first job costs that waits at the bucket and can ever pass. `state`: the books of a
-- rate or a budget. `rings`: somebody is to be told that a budget is nearly or more than spent.
alter table holdfast_bucket add column needs integer;
alter table holdfast_bucket add column state text;
alter table holdfast_bucket add column rings integer not null default 0;
create index holdfast_bucket_rings on holdfast_bucket (name) where rings;

-- What a job with limits passes, as a list: its line, its costs, which are null where it costs 1 in each
-- of its buckets, and its weight. It is null for a job without limits.
alter table holdfast_job add column passes text;
update holdfast_job
set passes = (select json_array(l.buckets, null, 1) from holdfast_limited as l where l.job_id = id);
drop table holdfast_limited;
alter table holdfast_lease add column costs text;
-- What the attempt has reported to have spent, by limit.
alter table holdfast_lease add column spent text;

-- `turn` is what the line was served, divided by its weight: the least comes next. `costly`: a job of it
-- may cost more than 1. `need`: what its first job costs at the bucket where the line is parked.
-- `aside`: its jobs cost more than a bucket ever lets pass, and all the same.
alter table holdfast_line add column weight integer not null default 1;
alter table holdfast_line add column fair text;
alter table holdfast_line add column labels text;
alter table holdfast_line add column costly integer not null default 0;
alter table holdfast_line add column need integer not null default 1;
alter table holdfast_line add column aside integer not null default 0;
create index holdfast_line_fair on holdfast_line (fair, queue, priority) where fair is not null;

-- The turn of the line that was served last: where a new line begins.
create table holdfast_turn (
    queue text not null,
    priority integer not null,
    turn integer not null,
    primary key (queue, priority)
) without rowid;

-- What operators have said of the weights of fairness keys.
create table holdfast_weight (
    fair text primary key,
    weight integer not null
) without rowid;

-- The queues whose claims take more than a look at their lines: they have a total, or let jobs age.
create index holdfast_queue_ruled on holdfast_queue (name)
where instr(settings, '"max_running"') or instr(settings, '"aging"');
