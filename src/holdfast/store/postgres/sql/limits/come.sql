-- $1 queues   $2 priorities   $3 tasks   $4 buckets: the lines that jobs came to   $5 weights of those that came last
insert into {{schema}}.newcomer (queue, priority, task, buckets, weight)
select * from unnest($1::text[], $2::int[], $3::text[], $4::text[], $5::int[])
