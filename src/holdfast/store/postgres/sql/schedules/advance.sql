-- $1 schedule   $2 scope   $3 plan time   $4 how many cursors of other scopes to remove at most
with named as materialized (
    select name, keep from {{schema}}.schedule where name = $1::text for key share
),
forgotten as materialized (
    select ctid from {{schema}}.schedule_cursor
    where $2::text = '' and schedule = $1::text and scope <> ''
    and at < $3::timestamptz - (select keep from named) * interval '1 second'
    limit $4::int
    for update skip locked
),
gone as (
    delete from {{schema}}.schedule_cursor where ctid = any (array(select ctid from forgotten))
)
insert into {{schema}}.schedule_cursor as old (schedule, scope, at)
select name, $2::text, $3::timestamptz from named
on conflict (schedule, scope) do update set at = excluded.at where old.at < excluded.at
