-- $1 now   $2 queue
-- Lines that jobs came to are opened, and those at buckets with room.
select {{schema}}.hear($2::text, {{now}})
