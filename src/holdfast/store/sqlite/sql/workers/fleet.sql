-- name: totals
select q.name, json_extract(q.settings, '$.max_running')
from json_each(?) as wanted
cross join holdfast_queue as q on q.name = wanted.value
where json_extract(q.settings, '$.max_running') is not null

-- name: workers
select id, queues from holdfast_worker where expires_at > ? and drain_requested_at is null
