insert into holdfast_schedule_cursor (schedule, scope, at)
select name, ?2, ?3 from holdfast_schedule where name = ?1
on conflict (schedule, scope) do update set at = max(at, excluded.at)
