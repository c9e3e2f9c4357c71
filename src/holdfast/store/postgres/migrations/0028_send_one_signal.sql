-- One signal for a suspended job, by keys alone: the statement for many has some thirty parts, and most of its
-- time goes into beginning and ending them. Answers whether the job waited for this signal, and so is ready
-- now. Where there is more to decide it writes nothing and answers null: the job is not suspended, it has had
-- the key, the step `before` has ended, or the signal is over a limit. Then `signals/send` decides.
--
-- The lock comes first, and each statement of a volatile function has a snapshot of its own: whatever moved
-- the job before the lock, or recorded a step of it, is seen.
create function {{schema}}.send_signal(
    now timestamptz, channel text, job uuid, title text, content text, own_key text, before text,
    most int, largest bigint, own text, sender text, first_kept int, newest_kept int
)
returns boolean
language plpgsql
set enable_seqscan = off set enable_bitmapscan = off set jit = off set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
    held {{schema}}.suspended;
    had record;
begin
    select * into held from {{schema}}.suspended where job_id = job for update;
    if not found then
        return null;
    end if;
    select coalesce(max(n), 0) as n, bool_or(key = own_key) as is_known,
        count(*) filter (where not starts_with(name, own)) + (not starts_with(title, own))::int as number,
        coalesce(sum(octet_length(value)) filter (where taken_by is null), 0) + octet_length(content) as size
    into had
    from {{schema}}.signal where job_id = job;
    if had.is_known or had.number > most or had.size > largest then
        return null;
    end if;
    if before is not null and exists (
        select from {{schema}}.step where job_id = job and name = before
        and (result is not null or (kind is not null and until is null))
    ) then
        return null;
    end if;
    insert into {{schema}}.signal (job_id, n, name, value, key, at)
    values (job, had.n + 1, title, content, own_key, now);
    if held.ties & 32 = 0 then
        update {{schema}}.suspended set ties = ties | 32 where job_id = job;
    end if;
    if not exists (
        select from {{schema}}.step where job_id = job and awaits = title and fence = held.fence
    ) then
        return false;
    end if;
    delete from {{schema}}.suspended where job_id = job;
    insert into {{schema}}.ready (job_id, queue, priority, task, attempts, crashes, fence, ties, since)
    values (job, held.queue, held.priority, held.task, held.attempts, held.crashes, held.fence, held.ties, now);
    insert into {{schema}}.move (at, queue, task, source, target, what, jobs)
    values (now, held.queue, held.task, 'suspended', 'ready', 'resumed', 1);
    insert into {{schema}}.happening (job_id, at, fence, attempt, what, by, message)
    values (job, now, held.fence, held.attempts, 'resumed', sender, 'signal ' || title);
    if (select count(*) from {{schema}}.happening where job_id = job and kind is null)
        > first_kept + newest_kept
    then
        delete from {{schema}}.happening where job_id = job and n in (
            select n from (
                select n, row_number() over (order by n) as oldest,
                    row_number() over (order by n desc) as newest
                from {{schema}}.happening where job_id = job and kind is null
            ) as told
            where oldest > first_kept and newest > newest_kept
        );
    end if;
    perform pg_notify(channel || '_few', 'ready:' || held.queue || '=1');
    return true;
end $$;
