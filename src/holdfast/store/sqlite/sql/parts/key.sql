-- name: holder
select job_id, states, coalesce(until > ?, 0) from holdfast_unique_key where key = ?

-- name: take
insert into holdfast_unique_key (key, job_id, states, until)
values (?, ?, ?, ?)
on conflict (key) do update set job_id = excluded.job_id, states = excluded.states, until = excluded.until

-- name: retake
insert into holdfast_unique_key (key, job_id, states)
values (?, ?, ?)
on conflict (key) do update
set job_id = excluded.job_id, states = excluded.states, until = iif(job_id = excluded.job_id, until, null)
