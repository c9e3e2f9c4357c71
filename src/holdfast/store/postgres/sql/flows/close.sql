-- $1 now   $2 channel   $3 ids   $4 which nodes are to be cancelled   $5 whether the flow stops   $6 reason
with live as materialized (
    select id from {{schema}}.flow where id = any ($3::uuid[]) and finished_at is null
),
stopped as (
    update {{schema}}.flow set state = 'cancelling', cancel_asked = true, epoch = epoch + 1,
        reason = $6::text
    where $5::boolean and id = any (array(select id from live))
),
owed as (
    insert into {{schema}}.errand (flow_id, kind, what, at)
    select live.id, 'close', $4::text, {{now}}
    from unnest($3::uuid[]) with ordinality as given (id, n) join live on live.id = given.id
    group by live.id order by min(n)
    returning flow_id
),
woken as (
    select count(pg_notify($2::text, 'errands')) as calls from (select from owed limit 1) as any_of_them
)
select owed.flow_id::text as id, woken.calls from owed cross join woken
