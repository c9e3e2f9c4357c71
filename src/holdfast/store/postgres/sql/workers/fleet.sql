-- $1 now   $2 queues
-- A row for each queue with a total and each worker that may claim; at least one for each queue.
select queue.name, (queue.settings ->> 'max_running')::int as total, worker.id, worker.queues
from {{schema}}.queue
left join {{schema}}.worker on expires_at > {{now}} and drain_requested_at is null
where queue.name = any ($2::text[]) and queue.settings ->> 'max_running' is not null
