-- What a claim answers of `found`. Expects a word, `ties`: the ties of these jobs.
-- shaped for the driver: reading a uuid and two timestamps would cost it more than all the other
-- columns, and an empty array costs more than a null
job_id::text, task, queue, priority, args, policy, attempts, crashes, fence + 1 as fence,
    date_part('epoch', created_at) as created_at,
    -- null where it is the moment before, as for most jobs
    case when since <> created_at then date_part('epoch', since) end as ready_at,
    date_part('epoch', {{now}}) as claimed_at,
    case when deadline_at > {{calendar_end}} then {{calendar_end}} else deadline_at end as deadline_at,
    case when cardinality(tags) > 0 then tags end as tags, headers,
    -- only a job that was claimed before can have left a checkpoint
    case when fence > 0 then (
        select checkpoint from {{schema}}.progress where progress.job_id = found.job_id
    ) end as checkpoint, ahead, {{ties}} as ties, seq
