-- $1 now   $2 flows
-- uses: removed unrecorded counted
-- let gone: gone
-- The flows are locked.
with nodes as (
    delete from {{schema}}.node where flow_id = any ($2::uuid[]) returning job_id
),
gone as (
    delete from {{schema}}.outcome where job_id = any (array(select job_id from nodes))
    returning job_id, ties, queue, task, state
),
{{removed}},
{{unrecorded}},
gates as (
    delete from {{schema}}.gate where job_id = any (array(select job_id from nodes))
),
graphs as (
    delete from {{schema}}.flow_graph where flow_id = any ($2::uuid[])
),
errands as (
    delete from {{schema}}.errand where flow_id = any ($2::uuid[])
),
flows as (
    delete from {{schema}}.flow where id = any ($2::uuid[])
),
counting as (
    select queue, task, state as source, '' as target, 'pruned' as what from gone
),
{{counted}}
select count(*)::int from gone
