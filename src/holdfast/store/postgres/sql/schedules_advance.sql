-- $1 schedule   $2 scope   $3 plan time
insert into {{schema}}.schedule_cursor as old (schedule, scope, at)
select name, $2::text, $3::timestamptz from {{schema}}.schedule where name = $1::text for key share
on conflict (schedule, scope) do update set at = excluded.at where old.at < excluded.at
