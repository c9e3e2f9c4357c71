exists (select 1 from holdfast_gate as o where o.job_id = g.job_id and o.n <> g.n)
