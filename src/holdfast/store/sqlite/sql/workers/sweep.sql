-- name: shorten
update holdfast_worker set expires_at = :now + lease where expires_at > :now + lease

-- name: find
select w.id
from holdfast_worker as w
where w.expires_at < ? and w.id not in (select worker_id from holdfast_lease)
order by w.expires_at
limit ?
