update holdfast_queue
set
    throttle_base = ?2,
    throttle_cap = ?3,
    retain_succeeded = ?4,
    retain_failed = ?5,
    retain_other = ?6
where name = ?1
