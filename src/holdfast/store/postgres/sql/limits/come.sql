-- $1 queues   $2 priorities   $3 tasks   $4 buckets: the lines that jobs will come to   $5 weights of those that come last
-- Fifty lines a row: as many as there are numbers between two rows.
insert into {{schema}}.newcomer (queue, priority, task, buckets, others, weight, seq)
select queue, priority, task, lines[1], lines[2:], weight, (select last_value from {{schema}}.ready_seq)
from (
    select queue, priority, task, weight, array_agg(buckets order by place) as lines
    from unnest($1::text[], $2::int[], $3::text[], $4::text[], $5::int[])
        with ordinality as came (queue, priority, task, buckets, weight, place)
    group by queue, priority, task, weight, (place - 1) / 50
    order by min(place)
) as told
