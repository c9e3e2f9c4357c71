select name, sum(n)
from (
    select name, n from holdfast_worker_count
    union all
    select counted.key, counted.value
    from holdfast_worker as w
    cross join json_each(w.facts, '$.counts') as counted
)
group by name
