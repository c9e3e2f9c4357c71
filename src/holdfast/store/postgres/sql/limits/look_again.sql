-- $1 now   $2 channel   $3 buckets   $4 limits: all of their buckets
select {{schema}}.look_again($2::text, $3::text[], $4::text[], {{now}})
