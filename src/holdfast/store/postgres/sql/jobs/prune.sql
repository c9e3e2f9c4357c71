-- $1 now   $2 ids, as expired.sql found them
-- uses: is_undone owes_undo removed unrecorded counted
-- let gone: gone
-- Removes those of the jobs whose time to be kept is still over: a requeue may have come between.
-- Several may prune at once: each takes rows that no other has. Whether a row owes its undo is asked
-- afterwards: beside the ids, the planner would look for them by the time to be kept.
with over as materialized (
    select ctid, job_id, ties, state from {{schema}}.outcome
    where job_id = any ($2::uuid[]) and expires_at <= {{now}}
    for update skip locked
),
gone as (
    delete from {{schema}}.outcome
    where ctid = any (array(select outcome.ctid from over as outcome where not ({{owes_undo}})))
    returning job_id, ties, queue, task, state
),
{{removed}},
{{unrecorded}},
counting as (
    select queue, task, state as source, '' as target, 'pruned' as what from gone
),
{{counted}}
select count(*)::int from gone
