-- whether the steps of an ended job `o` are still to be undone: no flow has been started that does it
{{parts/is_undone}}
and not exists (
    select 1 from holdfast_flow as f
    where f.id = substr(o.job_id, 1, 14) || '9' || substr(o.job_id, 16)
)
