-- $1 now   $2 ids
-- uses: is_undone owes_undo removed unrecorded counted
-- let gone: gone
with gone as (
    delete from {{schema}}.outcome
    where job_id = any ($2::uuid[]) and ties & 1 = 0 -- no nodes
    and not ({{owes_undo}})
    returning job_id, ties, queue, task, state
),
{{removed}},
{{unrecorded}},
counting as (
    select queue, task, state as source, '' as target, 'deleted' as what from gone
),
{{counted}}
select job_id from gone
