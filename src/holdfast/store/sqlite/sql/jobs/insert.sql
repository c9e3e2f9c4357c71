-- name: newest
select max(id) from holdfast_job

-- name: known
select id, task, args from holdfast_job where id in (select value from json_each(?))

-- name: created
select created_at from holdfast_job where id = ?

-- name: body
insert into holdfast_job (id, task, created_at, unique_key, unique_states, {{body}})
values (?, ?, ?, ?, ?, {{body values}})

-- name: body that passes
insert into holdfast_job (id, task, created_at, unique_key, unique_states, {{body}}, passes)
values (?, ?, ?, ?, ?, {{body values}}, ?)

-- name: deadline
insert into holdfast_deadline (job_id, at) values (?, ?)
