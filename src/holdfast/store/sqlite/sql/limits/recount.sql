-- name: page
select name, in_use from holdfast_bucket where name > ? order by name limit ?

-- name: receipts
select buckets, costs, count(*) from holdfast_lease where buckets is not null group by buckets, costs

-- name: correct
update holdfast_bucket set in_use = ?, opens_at = iif(has_waiting, ?, null) where name = ?

-- name: idle
select name from holdfast_bucket
where name in (select value from json_each(:names))
    and in_use = 0 and not has_waiting and override is null
    and coalesce(shut_until, 0) < :idle_since and touched_at < :idle_since

-- name: forget
delete from holdfast_bucket where name = ?
