-- The columns of a `Live`, from a row `place` and the job's body `job`.
place.job_id, place.state, place.queue, place.task, job.policy, place.attempts, place.crashes,
    place.fence, place.worker_id, place.cancel_requested_at is not null as cancel_requested,
    place.ahead, place.claimed_at, place.ties
