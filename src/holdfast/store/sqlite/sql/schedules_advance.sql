insert into schedule_cursor (schedule, scope, at)
select name, ?2, ?3 from schedule where name = ?1
on conflict (schedule, scope) do update set at = max(at, excluded.at)
