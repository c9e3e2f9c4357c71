-- name: live
select p.job_id from holdfast_place as p
where p.job_id in (select value from json_each(?))
and p.state not in (select value from json_each(?))

-- name: frames
select fence, last, number, data, section, since, again, whole, closes, keep = 'live', at
from holdfast_frames
where job_id = ? and stream = ? and (fence, last) > (?, ?)
order by fence, last
limit ?
