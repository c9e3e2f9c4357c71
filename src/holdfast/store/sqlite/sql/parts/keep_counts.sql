insert into holdfast_worker_count (name, n)
select counted.key, sum(counted.value)
from holdfast_worker as w
cross join json_each(coalesce(:facts, w.facts), '$.counts') as counted
where w.id in (select value from json_each(:workers))
group by counted.key
on conflict (name) do update set n = n + excluded.n
