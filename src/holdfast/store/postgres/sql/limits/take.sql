-- $1 now   $2 channel   $3 buckets, each once, in their order   $4 how much is taken of each
-- $5 whether no transaction is around this
call {{schema}}.take_early($2::text, $3::text[], $4::bigint[], $5::boolean, {{now}}, null, null)
