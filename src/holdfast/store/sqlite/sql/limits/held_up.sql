select count(*)
from holdfast_line as l
cross join holdfast_ready as r on r.line = l.id
where l.queue in (select value from json_each(:queues)) and l.task in (select value from json_each(:tasks))
and (
    exists (
        select 1 from holdfast_bucket as b
        where b.name = l.parked_at and b.in_use = 0 and coalesce(b.opens_at > :now, 1)
    )
    or :labels is not null and exists (
        select 1 from json_each(l.labels) as needed
        where needed.value not in (select value from json_each(:labels))
    )
)
