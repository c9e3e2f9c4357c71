-- $1 now   $2 name
-- The settings of a queue, and whether jobs with limits may begin there.
select settings::text, {{schema}}.lines_wait(array[name], {{now}}) is not null as lines_wait
from {{schema}}.queue where name = $2::text
