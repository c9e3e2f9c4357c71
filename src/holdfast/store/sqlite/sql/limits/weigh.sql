-- name: keep
insert into holdfast_weight (fair, weight) values (?, ?)
on conflict (fair) do update set weight = excluded.weight

-- name: forget
delete from holdfast_weight where fair = ?

-- name: lines
update holdfast_line set weight = ? where fair = ?
