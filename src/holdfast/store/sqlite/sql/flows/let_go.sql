update holdfast_node set is_let_go = 1
where flow_id = :flow and job_id in (select value from json_each(:ids))
