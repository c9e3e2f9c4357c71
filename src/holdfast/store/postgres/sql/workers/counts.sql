select name, sum(n)::bigint as n
from (
    select name, n from {{schema}}.worker_count
    union all
    select counted.key, counted.value::bigint
    from {{schema}}.worker
    cross join lateral json_each_text(facts::json -> 'counts') as counted
) as every
group by name
