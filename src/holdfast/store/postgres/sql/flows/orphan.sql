-- $1 now   $2 channel   $3 flows   $4 their parents, which have ended
-- Owes the cancel of those of these flows that are live.
with owed as (
    insert into {{schema}}.errand (flow_id, kind, job_id, at)
    select flow.id, 'orphan', given.parent, {{now}}
    from unnest($3::uuid[], $4::uuid[]) as given (id, parent)
    join {{schema}}.flow on flow.id = given.id and flow.finished_at is null
    order by flow.id
    returning id
)
select pg_notify($2::text, 'errands') from owed limit 1
