select
    exists (select 1 from holdfast_ready where line = 0 and queue in (select value from json_each(:queues)))
        or exists (
            select 1 from holdfast_line
            where parked_at is null and queue in (select value from json_each(:queues))
        )
        or exists (select 1 from holdfast_bucket where has_waiting and opens_at <= :now),
    (
        select min(at)
        from (
            select min(due_at) as at from holdfast_scheduled where due_at > :since
            union all
            select min(wake_at) from holdfast_suspended where wake_at > :since
            union all
            select min(at) from holdfast_deadline where at > :since
        )
    ),
    coalesce((select n from holdfast_counter where topic = 'cancel' and name = :worker), 0),
    coalesce((select n from holdfast_counter where topic = 'schedules' and name = ''), 0),
    (select count(*) from (select 1 from holdfast_worker where expires_at > :now limit :most)),
    exists (select 1 from holdfast_operation where state = 'running'),
    (select min(expires_at) from holdfast_worker),
    exists (select 1 from holdfast_errand)
