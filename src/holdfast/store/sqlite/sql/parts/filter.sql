-- What a JobFilter asks of a job `p`, but for its id. `:body` names the tags, arguments and schedule
-- (`contract/matching.py`); `:in_body` says whether the body must be read at all. What stands before
-- `body_fits` spares most rows the call into Python.
(:states is null or p.state in (select value from json_each(:states)))
and (:queues is null or p.queue in (select value from json_each(:queues)))
and (:tasks is null or p.task in (select value from json_each(:tasks)))
and (:worker is null or p.worker_id = :worker)
and (:priority is null or p.priority = :priority)
and (:priority_over is null or p.priority > :priority_over)
and (:priority_under is null or p.priority < :priority_under)
and (:attempts_over is null or p.attempts > :attempts_over)
and (:finished_after is null or p.finished_at >= :finished_after)
and (:finished_before is null or p.finished_at < :finished_before)
and (
    not :in_body
    or exists (
        select 1
        from holdfast_job as j
        where j.id = p.job_id
            and (:created_after is null or j.created_at >= :created_after)
            and (:created_before is null or j.created_at < :created_before)
            and (
                :tags_piece is null
                or instr(j.tags, :tags_piece) > 0
                or instr(j.tags, '\u') > 0
            )
            and (not :has_headers or j.headers is not null)
            and (
                :args_piece is null
                or instr(j.args, :args_piece) > 0
                or instr(j.args, '\u') > 0
            )
            and (:body is null or body_fits(:body, j.tags, j.args, j.headers))
    )
)
and (
    :error_text is null
    or p.ended and instr(casefold(p.reason), casefold(:error_text)) > 0
    or exists (
        select 1
        from holdfast_happening as e
        where e.job_id = p.job_id
            and e.kind is not null
            and instr(casefold(e.message), casefold(:error_text)) > 0
    )
)
