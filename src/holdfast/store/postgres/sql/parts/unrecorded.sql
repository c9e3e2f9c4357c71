-- Removes what attempts of jobs have recorded: steps, signals and frames. Flows that are kept as long as
-- the jobs that started them may go as soon as they have ended. Expects {{gone}} (job_id, ties), jobs that
-- are removed or begin anew.
{{each recorded}}
no_{{place}} as (
    delete from {{schema}}.{{place}}
    where job_id = any (array(select job_id from {{gone}} where ties & 32 <> 0))
),
{{end}}
without_children as (
    update {{schema}}.flow
    set keep = '{"succeeded": 0, "failed": 0, "cancelled": 0}',
        expires_at = case when finished_at is not null then {{now}} end
    where parent = any (array(select job_id from {{gone}} where ties & 80 <> 0)) and keep = '{}'
)
