-- name: holder
select job_id, states from holdfast_unique_key where key = ?

-- name: take
insert into holdfast_unique_key (key, job_id, states)
values (?, ?, ?)
on conflict (key) do update set job_id = excluded.job_id, states = excluded.states
