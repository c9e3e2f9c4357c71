-- $1 now   $2 channel   $3 jobs that have ended
-- Owes the cancel of the live flows that these jobs have started.
with owed as (
    insert into {{schema}}.errand (flow_id, kind, job_id, at)
    select id, 'orphan', parent, {{now}} from {{schema}}.flow
    where parent = any ($3::uuid[]) and finished_at is null
    order by id
    returning id
)
select pg_notify($2::text, 'errands') from owed limit 1
