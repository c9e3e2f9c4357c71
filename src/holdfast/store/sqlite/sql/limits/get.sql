-- The same columns as those of `load` in `parts/buckets`, and how many lines wait.
select
    wanted.value, l.settings, coalesce(l.retired, 0), coalesce(b.in_use, 0), b.shut_until,
    coalesce(b.has_waiting, 0), b.override, b.needs, b.state, q.settings,
    coalesce(b.throttles, 0),
    (select count(*) from holdfast_line as p where b.has_waiting and p.parked_at = b.name)
from json_each(?) as wanted
left join holdfast_bucket as b on b.name = wanted.value
left join holdfast_limit_rule as l on l.name = substr(wanted.value, 1, instr(wanted.value, ':') - 1)
left join holdfast_queue as q on substr(wanted.value, 1, 6) = 'queue:' and q.name = substr(wanted.value, 7)
