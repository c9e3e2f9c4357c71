-- name: advance
insert into holdfast_schedule_cursor (schedule, scope, at)
select name, ?2, ?3 from holdfast_schedule where name = ?1
on conflict (schedule, scope) do update set at = max(at, excluded.at)

-- name: forget
-- cursors so old that the cursor of no scope stands for their scopes
delete from holdfast_schedule_cursor
where schedule = ?1
    and scope in (
        select c.scope
        from holdfast_schedule_cursor as c
        cross join holdfast_schedule as s on s.name = c.schedule
        where c.schedule = ?1 and c.scope <> '' and c.at < ?2 - s.keep * 1000000
        limit ?3
    )
