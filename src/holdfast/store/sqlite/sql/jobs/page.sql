-- Each arm walks its own key downwards and SQLite merges them, so a page reads no more rows than
-- its filters make it pass over; `:ended` spares those who want live jobs only the history.
-- `limit -1` keeps the planner from dropping the inner order.
with p as (
    select job_id, 'ready' as state, queue, task, null as reason
    from holdfast_ready
    where job_id < :cursor and (:states is null or 'ready' in (select value from json_each(:states)))
    union all
    select job_id, 'running' as state, queue, task, null
    from holdfast_lease
    where job_id < :cursor and (:states is null or 'running' in (select value from json_each(:states)))
    union all
    select job_id, 'scheduled' as state, queue, task, null
    from holdfast_scheduled
    where job_id < :cursor and (:states is null or 'scheduled' in (select value from json_each(:states)))
    union all
    select job_id, 'suspended' as state, queue, task, null
    from holdfast_suspended
    where job_id < :cursor and (:states is null or 'suspended' in (select value from json_each(:states)))
    union all
    select job_id, state, queue, task, reason
    from holdfast_outcome
    where :ended and job_id < :cursor and (:states is null or state in (select value from json_each(:states)))
    order by job_id desc
    limit -1
)
select p.job_id
from p
where (:ids is null or p.job_id in (select value from json_each(:ids)))
    and (:states is null or p.state in (select value from json_each(:states)))
    and (:queues is null or p.queue in (select value from json_each(:queues)))
    and (:tasks is null or p.task in (select value from json_each(:tasks)))
    and (
        coalesce(:created_after, :created_before) is null
        or exists (
            select 1
            from holdfast_job as j
            where j.id = p.job_id
                and (:created_after is null or j.created_at >= :created_after)
                and (:created_before is null or j.created_at < :created_before)
        )
    )
    and (
        :tag is null
        or exists (
            select 1
            from holdfast_job as j, json_each(j.tags) as tag
            where j.id = p.job_id and tag.value = :tag
        )
    )
    and (
        :error_text is null
        or instr(casefold(p.reason), casefold(:error_text)) > 0
        or exists (
            select 1
            from holdfast_error as e
            where e.job_id = p.job_id and instr(casefold(e.message), casefold(:error_text)) > 0
        )
    )
limit :limit
