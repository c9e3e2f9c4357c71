-- $1 flow
select graph from {{schema}}.flow_graph where flow_id = $1::uuid order by n
