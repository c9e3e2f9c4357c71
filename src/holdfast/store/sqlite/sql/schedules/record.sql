-- name: keeps
select name, keep from holdfast_schedule where name in (select value from json_each(?))

-- name: found
select l.schedule, l.scope, l.at, l.decision, l.job_id
from json_each(?) as wanted
cross join holdfast_ledger as l
    on l.schedule = json_extract(wanted.value, '$[0]')
    and l.scope = json_extract(wanted.value, '$[1]')
    and l.at = json_extract(wanted.value, '$[2]')

-- name: write
insert into holdfast_ledger (schedule, scope, at, decision, reason, recorded_at, keep_until, job_id)
values (?, ?, ?, ?, ?, ?, ?, ?)
on conflict (schedule, scope, at) do update set
    decision = excluded.decision,
    reason = excluded.reason,
    recorded_at = excluded.recorded_at,
    keep_until = excluded.keep_until,
    job_id = excluded.job_id

-- name: advance
insert into holdfast_schedule_cursor (schedule, scope, at)
values (?, ?, ?)
on conflict (schedule, scope) do update set at = max(at, excluded.at)

-- name: tidy
-- the oldest rows only: a plan must not read a long backlog of live jobs
delete from holdfast_started
where schedule = :schedule
    and scope = :scope
    and at in (
        select at
        from holdfast_started
        where schedule = :schedule and scope = :scope
        order by at
        limit :limit
    )
    and not exists (
        select 1 from holdfast_place as p where p.job_id = holdfast_started.job_id and not p.ended
    )

-- name: start
insert into holdfast_started (schedule, scope, at, job_id)
values (?, ?, ?, ?)
on conflict (schedule, scope, at) do update set job_id = excluded.job_id

-- name: restart
-- a requeued job is live again, so its plan has to be listed again
insert into holdfast_started (schedule, scope, at, job_id)
select schedule, scope, at, job_id from holdfast_ledger where job_id = ?
on conflict do nothing
