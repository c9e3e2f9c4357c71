-- $1 flow   $2 ids of nodes
update {{schema}}.node set is_let_go = true where flow_id = $1::uuid and job_id = any ($2::uuid[])
