-- name: advance
insert into holdfast_schedule_cursor (schedule, scope, at)
select name, :scope, :at from holdfast_schedule where name = :name
on conflict (schedule, scope) do update set at = max(at, excluded.at)

-- name: forget
-- cursors so old that the cursor of no scope stands for their scopes
delete from holdfast_schedule_cursor
where schedule = :name
    and scope in (
        select c.scope
        from holdfast_schedule_cursor as c
        cross join holdfast_schedule as s on s.name = c.schedule
        where c.schedule = :name and c.scope <> '' and c.at < :at - s.keep * 1000000
        limit :limit
    )
