-- name: tell
insert into holdfast_happening (
    job_id, n, at, what, attempt, fence, worker_id, claimed_at, due_at, "by",
    kind, fingerprint, message, traceback
)
select
    :job_id, coalesce(max(n), 0) + 1, :at, :what, :attempt, :fence, :worker_id, :claimed_at, :due_at,
    :by, :kind, :fingerprint, :message, :traceback
from holdfast_happening
where job_id = :job_id

-- name: forget
-- Errors and other happenings are counted apart: many of one kind push out none of the other. The last
-- number of a job says whether it can have too many of either, so most jobs cost one look at the key.
delete from holdfast_happening
where (job_id, n) in (
    with long_lived as materialized (
        select value as job_id
        from json_each(:ids)
        where (select max(n) from holdfast_happening where job_id = json_each.value) > :few
    )
    select job_id, n
    from (
        select
            h.job_id, h.n, h.kind is null as harmless,
            row_number() over (partition by h.job_id, h.kind is null order by h.n) as oldest,
            row_number() over (partition by h.job_id, h.kind is null order by h.n desc) as newest
        from long_lived
        cross join holdfast_happening as h on h.job_id = long_lived.job_id
    )
    where iif(harmless, newest > :newest and oldest > :first, newest > :errors)
)
