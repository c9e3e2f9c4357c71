-- name: newest
select max(id) from job

-- name: known
select id from job where id in (select value from json_each(?))

-- name: body
insert into job (id, task, created_at, policy, tags, headers, unique_key, unique_states, args)
values (?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: deadline
insert into deadline (job_id, at) values (?, ?)

-- name: holder
select job_id, states from unique_key where key = ?

-- name: take key
insert into unique_key (key, job_id, states)
values (?, ?, ?)
on conflict (key) do update set job_id = excluded.job_id, states = excluded.states
