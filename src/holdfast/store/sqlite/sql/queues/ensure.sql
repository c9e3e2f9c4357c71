insert into holdfast_queue (
    name, throttle_base, throttle_cap, retain_succeeded, retain_failed, retain_other
)
values (?, ?, ?, ?, ?, ?)
on conflict do nothing
