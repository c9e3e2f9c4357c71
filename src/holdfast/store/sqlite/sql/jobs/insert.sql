-- name: newest
select max(id) from holdfast_job

-- name: known
select id, task, args from holdfast_job where id in (select value from json_each(?))

-- name: created
select created_at from holdfast_job where id = ?

-- name: body
insert into holdfast_job (id, task, created_at, unique_key, unique_states, {{body}})
values (?, ?, ?, ?, ?, {{body values}})

-- name: alike bodies
-- Bodies that differ in their ids and arguments alone. `or fail` as in `flows/settle`.
insert or fail into holdfast_job (id, task, created_at, {{shared}}, args)
select e.key, :task, :now, {{shared named}}, e.value from json_each(:args) as e

-- name: alike and ready
insert or fail into holdfast_ready (
    job_id, queue, priority, seq, task, attempts, crashes, fence, ties,
    ready_at
)
select e.key, :queue, :priority, e.value, :task, 0, 0, 0, :ties, :now from json_each(:seqs) as e

-- name: alike and blocked
insert or fail into holdfast_blocked (job_id, queue, priority, seq, task, attempts, crashes, fence, ties)
select e.key, :queue, :priority, e.value, :task, 0, 0, 0, :ties from json_each(:seqs) as e

-- name: bodies that pass
with body (id, args, passes) as (values (?, ?, ?))
insert or fail into holdfast_job (id, created_at, unique_key, unique_states, task, {{shared}}, args, passes)
select b.id, ?, ?, ?, ?, {{shared values}}, b.args, b.passes from body as b

-- name: deadline
insert into holdfast_deadline (job_id, at) values (?, ?)
