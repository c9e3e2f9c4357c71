-- What a JobFilter asks of a job `p`, but for ids and states.
(:queues is null or p.queue in (select value from json_each(:queues)))
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
    or p.ended and instr(casefold(p.reason), casefold(:error_text)) > 0
    or exists (
        select 1
        from holdfast_error as e
        where e.job_id = p.job_id and instr(casefold(e.message), casefold(:error_text)) > 0
    )
)
