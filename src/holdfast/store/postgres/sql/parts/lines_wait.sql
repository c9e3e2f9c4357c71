-- A row without a job for each queue of `asked` in which jobs with limits may begin.
select null, null, asked.queue, null, null, null, null, null, null, null, null, null, null, null, null, null,
    null, null, null
from asked
where exists (select from {{schema}}.newcomer where newcomer.queue = asked.queue)
or exists (select from {{schema}}.line where line.queue = asked.queue) and (
    exists (select from {{schema}}.line where line.queue = asked.queue and line.parked_at is null)
    or exists (select from {{schema}}.bucket where has_waiting and opens_at <= {{now}}))
