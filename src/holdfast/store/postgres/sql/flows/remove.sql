-- $1 now   $2 nodes that have ended
-- uses: removed unrecorded counted
-- let gone: gone
-- Removes them with all that belongs to them. Their flow is locked. Edges may go on to name them: their ids are never
-- used again.
with gone as (
    delete from {{schema}}.outcome where job_id = any ($2::uuid[])
    returning job_id, ties, queue, task, state
),
{{removed}},
{{unrecorded}},
gates as (
    delete from {{schema}}.gate where job_id = any ($2::uuid[])
),
nodes as (
    delete from {{schema}}.node where job_id = any ($2::uuid[])
),
counting as (
    select queue, task, state as source, '' as target, 'deleted' as what from gone
),
{{counted}}
select count(*)::int from gone
