-- $1 now   $2 queues
select {{schema}}.hear($2::text[], {{now}})
