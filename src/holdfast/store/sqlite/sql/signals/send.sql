-- name: places
select p.job_id, p.state, p.ties
from holdfast_place as p
where p.job_id in (select value from json_each(?))

-- name: known key
select 1 from holdfast_signal where job_id = ? and key = ?

-- name: ended step
select 1 from holdfast_step
where job_id = ? and name = ? and (result is not null or (kind is not null and until is null))

-- name: totals
select
    count(*) filter (where substr(name, 1, length(:own)) <> :own), coalesce(max(n), 0),
    coalesce(sum(length(cast(value as blob))) filter (where taken_by is null), 0)
from holdfast_signal
where job_id = :job

-- name: keep
insert into holdfast_signal (job_id, n, name, value, key, at) values (?, ?, ?, ?, ?, ?)

-- name: met
-- Running jobs whose waits have just been recorded.
select distinct l.job_id
from json_each(?) as wanted
cross join holdfast_lease as l on l.job_id = wanted.value
cross join holdfast_step as w on w.job_id = l.job_id and w.fence = l.fence
cross join holdfast_signal as s on s.job_id = w.job_id and s.name = w.awaits
where s.taken_by is null
