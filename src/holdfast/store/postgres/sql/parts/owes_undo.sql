-- Whether the steps of an ended job are still to be undone: no flow has been started that does it.
-- Expects `outcome`.
{{is_undone}}
and not exists (
    select from {{schema}}.flow
    where flow.id = overlay(outcome.job_id::text placing '9' from 15)::uuid
)
