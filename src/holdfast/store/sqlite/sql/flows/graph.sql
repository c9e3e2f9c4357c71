select graph from holdfast_flow_graph where flow_id = ? order by n
