-- $1 ids
-- uses: flow_columns
select {{flow_columns}}
from unnest($1::uuid[]) with ordinality as asked (id, n)
cross join lateral (select * from {{schema}}.flow where flow.id = asked.id limit 1) as flow
order by asked.n
