select count(*)
from holdfast_line as l
cross join holdfast_bucket as b on b.name = l.parked_at and b.in_use = 0 and coalesce(b.opens_at > :now, 1)
cross join holdfast_ready as r on r.line = l.id
where l.queue in (select value from json_each(:queues)) and l.task in (select value from json_each(:tasks))
