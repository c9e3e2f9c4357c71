delete from holdfast_leader where role = ? and worker_id = ? returning role
