-- name: count
insert into holdfast_failure (fingerprint, task, kind, times, first_at, last_at)
values (:fingerprint, :task, :kind, :times, :now, :now)
on conflict do update set times = times + excluded.times, last_at = max(last_at, excluded.last_at)

-- name: sample
insert into holdfast_failure_sample (fingerprint, at, job_id, attempt, message, traceback)
values (:fingerprint, :now, :job_id, :attempt, :message, :traceback)
on conflict do update set
    at = excluded.at, job_id = excluded.job_id, attempt = excluded.attempt,
    message = excluded.message, traceback = excluded.traceback
where at < :good_since
