-- $1 ids of nodes, with commas between them
select job_id::text, inputs, closing, upstream::text, result
from {{schema}}.facts_of(string_to_array($1::text, ',')::uuid[])
