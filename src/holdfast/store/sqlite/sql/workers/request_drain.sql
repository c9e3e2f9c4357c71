update holdfast_worker
set drain_requested_at = coalesce(drain_requested_at, :now)
where id in (select value from json_each(:ids))
returning id
