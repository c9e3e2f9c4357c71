-- Owes the cancel of the live flows that a job has started, when the job has ended. It is a function, and
-- volatile, so its statement has a snapshot of its own: the end of the job may have waited until one of
-- these flows was committed.
create function {{schema}}.orphan_flows(now timestamptz, channel text, job uuid)
returns void language plpgsql
set enable_seqscan = off set enable_bitmapscan = off set jit = off set plan_cache_mode = force_generic_plan
as $$
begin
    insert into {{schema}}.errand (flow_id, kind, job_id, at)
    select flow.id, 'orphan', job, now from {{schema}}.flow
    where flow.parent = job and flow.finished_at is null
    order by flow.id;
    if found then
        perform pg_notify(channel, 'errands');
    end if;
end $$;
