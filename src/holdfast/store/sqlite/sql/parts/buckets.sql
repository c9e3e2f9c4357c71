-- name: load
-- The buckets that are named, with the definitions of their limits. A bucket need not have a row.
select
    wanted.value, l.settings, coalesce(l.retired, 0), coalesce(b.in_use, 0), b.shut_until,
    coalesce(b.has_waiting, 0), b.override, b.needs, b.state, q.settings
from json_each(?) as wanted
left join holdfast_bucket as b on b.name = wanted.value
left join holdfast_limit_rule as l on l.name = substr(wanted.value, 1, instr(wanted.value, ':') - 1)
left join holdfast_queue as q on substr(wanted.value, 1, 6) = 'queue:' and q.name = substr(wanted.value, 7)

-- name: save
insert into holdfast_bucket (name, in_use, has_waiting, needs, opens_at, state, rings, touched_at)
values (?, ?, ?, ?, ?, ?, ?, ?)
on conflict (name) do update set
    in_use = excluded.in_use, has_waiting = excluded.has_waiting, needs = excluded.needs,
    opens_at = excluded.opens_at, state = excluded.state, rings = excluded.rings,
    touched_at = excluded.touched_at

-- name: opening
select name from holdfast_bucket where has_waiting and opens_at <= ?

-- name: parked
-- The lines that can pass. One whose first job can not, since the limit was lowered, needs nothing: the claim that looks
-- at it lets that job stand aside. Where the limit lets none pass, all of them wait.
select id, iif(need <= :largest, need, 0), priority, turn from holdfast_line
where parked_at = :name and (need <= :largest or not aside and :largest > 0)
order by priority, turn, id
limit :most

-- name: unpark
-- It keeps its turn, so that those who are let go on stand before those who still wait.
update holdfast_line set parked_at = null where id = ?

-- name: is waited for
select exists (select 1 from holdfast_line where parked_at = ?)

-- name: park
update holdfast_line set parked_at = ?, need = ? where id = ?

-- name: parked lines
select id, parked_at, queue from holdfast_line where parked_at = ?

-- name: parked queues
select queue from holdfast_line where parked_at = ? order by priority, turn limit ?
