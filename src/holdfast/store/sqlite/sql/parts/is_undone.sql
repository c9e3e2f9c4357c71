-- whether an ended job `o` is undone: it ended badly, and has a step that can be undone
o.ties & 64 and o.state in ('failed', 'cancelled', 'expired') and exists (
    select 1 from holdfast_step as s
    where s.job_id = o.job_id and s.undo is not null and s.result is not null
)
