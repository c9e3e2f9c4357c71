-- `:ended` is known before any row is read: counting live jobs does not read the history.
with p as (
    select job_id, 'ready' as state, queue, task, null as reason from holdfast_ready
    union all
    select job_id, 'running', queue, task, null from holdfast_lease
    union all
    select job_id, 'scheduled', queue, task, null from holdfast_scheduled
    union all
    select job_id, 'suspended', queue, task, null from holdfast_suspended
    union all
    select job_id, state, queue, task, reason from holdfast_outcome where :ended
)
select p.state, count(*)
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
group by p.state
