-- name: keep
insert into holdfast_frames (
    job_id, stream, fence, last, number, section, since, again, whole, closes, keep, at, data
)
values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
on conflict (job_id, stream, fence, last) do nothing

-- name: replace
delete from holdfast_frames
where job_id = ? and stream = ? and section = ? and (fence, last) < (?, ?)

-- name: keep from
delete from holdfast_frames
where job_id = ? and stream = ? and (fence, last) < (?, ?)

-- name: forget
delete from holdfast_frames where job_id in (select value from json_each(?))
