-- $1 queues   $2 priorities   $3 tasks   $4 buckets: the lines that jobs will come to   $5 weights of those that come last
insert into {{schema}}.newcomer (queue, priority, task, buckets, weight, seq)
select came.*, (select last_value from {{schema}}.ready_seq)
from unnest($1::text[], $2::int[], $3::text[], $4::text[], $5::int[]) as came
