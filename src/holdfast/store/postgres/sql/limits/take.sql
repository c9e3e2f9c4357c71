-- $1 now   $2 channel   $3 buckets, each once, in their order   $4 how much is taken of each
select {{schema}}.micros({{now}}) as at, {{schema}}.take($2::text, $3::text[], $4::bigint[], {{now}}) as granted
