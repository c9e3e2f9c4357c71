-- name: held
select l.job_id, l.fence, l.ties
from json_each(?) as wanted
cross join holdfast_lease as l on l.job_id = wanted.value

-- name: held alone
select job_id, fence, ties from holdfast_lease where job_id = ?

-- name: keep
insert into holdfast_step (
    job_id, name, n, fence, tries, result, kind, message, version, until, at, awaits, undo
)
values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
on conflict (job_id, name) do update set
    n = excluded.n,
    fence = excluded.fence,
    tries = excluded.tries,
    result = excluded.result,
    kind = excluded.kind,
    message = excluded.message,
    version = excluded.version,
    until = excluded.until,
    at = excluded.at,
    awaits = excluded.awaits,
    undo = excluded.undo
where fence < excluded.fence

-- name: keep alone
insert or ignore into holdfast_step (
    job_id, name, n, fence, tries, result, kind, message, version, until, at, awaits
)
select job_id, ?, ?, fence, ?, ?, ?, ?, ?, ?, ?, ?
from holdfast_lease
where job_id = ? and fence = ? and ties & 32

-- name: tie
update holdfast_lease set ties = ties | 32 where job_id in (select value from json_each(?))

-- name: tie undo
update holdfast_lease set ties = ties | 64 where job_id in (select value from json_each(?))

-- name: end waits
update holdfast_step set until = :now
where job_id in (select value from json_each(:ids)) and until > :now

-- name: take
update holdfast_signal set taken_by = ?, value = null where job_id = ? and n = ?

-- name: forget signals
delete from holdfast_signal where job_id in (select value from json_each(?))

-- name: forget
delete from holdfast_step where job_id in (select value from json_each(?))
