-- Limits, their buckets, and the lines of jobs that pass the same buckets.

create table {{schema}}.limit_rule (
    name text collate "C" primary key,
    settings jsonb not null,
    edited boolean not null default false,
    retired boolean not null default false,
    revision int not null default 1
);

-- `in_use`: what the leases cost that name it, of every kind. `spent`, `since`, `scale`, `slices` with their `units`
-- and `alarms` are the books of rates and budgets (`holdfast.limits.admission`); times are microseconds.
-- `has_waiting`: lines are parked at it; `opens_at` is then when to look at it again (null: when a job
-- ends or an operator changes it). Both are written only while lines wait, so that counting is an update
-- that touches no index.
create table {{schema}}.bucket (
    name text collate "C" primary key,
    in_use bigint not null default 0,
    override jsonb,
    shut_until timestamptz,
    throttles int not null default 0,
    has_waiting boolean not null default false,
    opens_at timestamptz,
    touched_at timestamptz not null,
    spent bigint not null default 0,
    since bigint not null default 0,
    scale bigint not null default 0,
    slices bigint[] not null default '{}',
    units bigint[] not null default '{}',
    alarms smallint not null default 0
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);
create index bucket_opens on {{schema}}.bucket (opens_at) where has_waiting and opens_at is not null;
create index bucket_alarms on {{schema}}.bucket (name) where alarms & 3 <> 0;

-- The line that a job stands in, and what it costs in each bucket of it ('': one).
create table {{schema}}.limited (
    job_id uuid primary key,
    buckets text collate "C" not null,
    costs text collate "C" not null default '',
    weight int not null default 1
);

-- The jobs of one queue, priority and task that pass the same buckets. A line that meets a bucket without room is
-- parked there, out of the index that claims read; `needs` is what its first job costs there. `turn` is what the line
-- has given, divided by its weight: the least comes next, and of equal ones the least `n`. Lines of one key of
-- fairness (`fair`) have one share. `labels`: what a worker must have.
create table {{schema}}.line (
    queue text collate "C" not null,
    priority int not null,
    task text collate "C" not null,
    buckets text collate "C" not null,
    turn bigint not null,
    parked_at text collate "C",
    needs bigint not null default 1,
    n bigint not null,
    weight int not null default 1,
    fair text collate "C",
    labels text[] not null default '{}',
    primary key (queue, priority, task, buckets)
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500);
create index line_open on {{schema}}.line (queue, priority, turn, n) where parked_at is null;
create index line_parked on {{schema}}.line (parked_at, priority, turn, n) where parked_at is not null;
create index line_fair on {{schema}}.line (fair, queue, priority) where fair is not null;

-- What operators have said of the weights of keys of fairness.
create table {{schema}}.weight (
    fair text collate "C" primary key,
    weight int not null
);

-- The turn of the line that was served last: where a new line begins.
create table {{schema}}.turn (
    queue text collate "C" not null,
    priority int not null,
    turn bigint not null,
    primary key (queue, priority)
) with (fillfactor = 50);

-- Jobs came to these lines. Whoever puts a job in a line only adds a row here, one for each transaction: an
-- insert may sit in a user's transaction for minutes, and must not lock what claims and other inserts need.
-- `again`: the line has another first job now, which may fit where the one before did not.
create table {{schema}}.newcomer (
    n bigint generated always as identity primary key,
    by bigint not null default txid_current(),
    queue text collate "C" not null,
    priority int not null,
    task text collate "C" not null,
    buckets text collate "C" not null,
    again boolean not null default false,
    weight int
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500);
create index newcomer_queue on {{schema}}.newcomer (queue);
create index newcomer_of on {{schema}}.newcomer (by, queue, priority, task, buckets);

-- What a running job counts in, and how much in each (null: one); null for a job that counts nowhere. `spent` is
-- what its attempt has reported, by limit.
alter table {{schema}}.lease add column buckets text collate "C", add column costs text collate "C",
    add column spent jsonb;

-- Ready jobs with limits stand in a table of their own: those without limits pay nothing, and have no dead
-- entries of others before the head of their line. Statements that make jobs ready, or read them by their ids,
-- name `ready` and mean both. Statements of one kind name the table of that kind. `buckets` and `costs` come last
-- and are never null, so that they lie in the padding of a plain row.
alter table {{schema}}.ready rename to ready_plain;
alter index {{schema}}.ready_pkey rename to ready_plain_pkey;
alter table {{schema}}.ready_plain add column buckets text collate "C" not null default '',
    add column costs text collate "C" not null default '';
create table {{schema}}.ready (like {{schema}}.ready_plain including defaults) partition by list ((ties & 2));
alter table {{schema}}.ready attach partition {{schema}}.ready_plain for values in (0);
create table {{schema}}.ready_limited partition of {{schema}}.ready for values in (2)
with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_cost_delay = 0, vacuum_truncate = off);
alter table {{schema}}.ready_limited add primary key (job_id);
create index ready_limited_line on {{schema}}.ready_limited (queue, priority, task, buckets, seq);
alter table {{schema}}.ready_limited
    alter column queue set statistics 0,
    alter column priority set statistics 0,
    alter column seq set statistics 0,
    alter column task set statistics 0,
    alter column buckets set statistics 0;
-- Pages that keep the index the cheaper guess (0001).
insert into {{schema}}.ready_limited (job_id, queue, priority, seq, task, ties)
select gen_random_uuid(), '', 0, 0, '', 2 from generate_series(1, 8000);
delete from {{schema}}.ready_limited;

-- As before, of both.
create or replace view {{schema}}.place as
    select job_id, 'ready'::text as state, queue, priority, task, attempts, crashes, fence, ties,
        null::timestamptz as due_at, null::uuid as worker_id, null::timestamptz as claimed_at,
        null::timestamptz as cancel_requested_at, null::timestamptz as finished_at,
        null::timestamptz as expires_at, null::text as result, null::text as reason,
        false as ended, false as ahead, since, null::text collate "C" as fingerprint
    from {{schema}}.ready
    union all
    select job_id, 'running'::text, queue, priority, task, attempts, crashes, fence, ties,
        null::timestamptz, worker_id, claimed_at, cancel_requested_at, null::timestamptz,
        null::timestamptz, null::text, null::text, false, ahead, null::timestamptz, null::text
    from {{schema}}.lease
    union all
    select job_id, 'scheduled'::text, queue, priority, task, attempts, crashes, fence, ties,
        due_at, null::uuid, null::timestamptz, null::timestamptz, null::timestamptz,
        null::timestamptz, null::text, reason, false, false, null::timestamptz, null::text
    from {{schema}}.scheduled
    union all
    select job_id, 'suspended'::text, queue, priority, task, attempts, crashes, fence, ties,
        wake_at, null::uuid, null::timestamptz, null::timestamptz, null::timestamptz,
        null::timestamptz, null::text, reason, false, false, null::timestamptz, null::text
    from {{schema}}.suspended
    union all
    select job_id, 'blocked'::text, queue, priority, task, attempts, crashes, fence, ties,
        null::timestamptz, null::uuid, null::timestamptz, null::timestamptz, null::timestamptz,
        null::timestamptz, null::text, null::text, false, false, null::timestamptz, null::text
    from {{schema}}.blocked
    union all
    select job_id, state, queue, priority, task, attempts, crashes, fence, ties,
        null::timestamptz, worker_id, claimed_at, null::timestamptz, finished_at,
        expires_at, result, reason, true, false, null::timestamptz, fingerprint
    from {{schema}}.outcome;

-- Many statements make jobs ready. Whoever does not say the buckets of a job with limits leaves that to this. A job
-- may have the tie and pass no bucket. A job whose number is not the newest has come back to its old place.
create function {{schema}}.stand() returns trigger language plpgsql as $$
declare
    comes_back boolean := false;
    given int;
begin
    if tg_op = 'INSERT' then
        select limited.buckets, limited.costs, limited.weight into new.buckets, new.costs, given
        from {{schema}}.limited where limited.job_id = new.job_id;
        new.buckets := coalesce(new.buckets, '');
        new.costs := coalesce(new.costs, '');
        comes_back := new.seq < (select last_value from {{schema}}.ready_seq);
    end if;
    insert into {{schema}}.newcomer (queue, priority, task, buckets, again, weight)
    select new.queue, new.priority, new.task, new.buckets, comes_back, given
    where not exists (
        select from {{schema}}.newcomer
        where newcomer.by = txid_current() and newcomer.queue = new.queue
        and newcomer.priority = new.priority and newcomer.task = new.task
        and newcomer.buckets = new.buckets and newcomer.again >= comes_back);
    return new;
end $$;
create trigger stand before insert on {{schema}}.ready_limited for each row
when (new.buckets = '') execute function {{schema}}.stand();
create trigger stand_anew before update of queue, priority on {{schema}}.ready_limited for each row
execute function {{schema}}.stand();

-- A job that leaves its line in another way than by a claim may have been what others wait behind. Claims say so.
create function {{schema}}.leave() returns trigger language plpgsql as $$
begin
    insert into {{schema}}.newcomer (queue, priority, task, buckets, again)
    values (old.queue, old.priority, old.task, old.buckets, true);
    return null;
end $$;
create trigger leave after delete on {{schema}}.ready_limited for each row
when (old.costs <> '' and current_setting('holdfast.claims', true) is distinct from 'yes')
execute function {{schema}}.leave();
create trigger leave_anew after update of queue, priority on {{schema}}.ready_limited for each row
when (old.costs <> '') execute function {{schema}}.leave();
