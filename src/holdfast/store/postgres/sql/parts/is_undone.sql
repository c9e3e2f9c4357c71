-- Whether an ended job is undone: it ended badly, and has a step that can be undone.
-- Expects `outcome`.
outcome.ties & 64 <> 0 and outcome.state in ('failed', 'cancelled', 'expired') and exists (
    select from {{schema}}.step
    where step.job_id = outcome.job_id and step.undo is not null and step.result is not null
)
