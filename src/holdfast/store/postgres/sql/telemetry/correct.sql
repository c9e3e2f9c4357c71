-- $1 queues   $2 tasks   $3 states   $4 numbers of jobs
insert into {{schema}}.tally as old (queue, task, state, jobs)
select * from unnest($1::text[], $2::text[], $3::text[], $4::bigint[])
on conflict (queue, task, state) do update set jobs = old.jobs + excluded.jobs
