select id, flow_id, kind, job_id, what, at from holdfast_errand where id > ? order by id limit ?
