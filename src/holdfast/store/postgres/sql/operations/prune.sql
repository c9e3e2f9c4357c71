-- $1 now   $2 limit   $3 seconds that operations are kept
with over as materialized (
    select id from {{schema}}.operation
    where state <> 'running' and advanced_at <= {{now}} - $3::float8 * interval '1 second'
    order by begun_at, id limit $2::int for update skip locked
),
unkept as (
    delete from {{schema}}.operation_kept where operation = any (array(select id from over))
),
gone as (
    delete from {{schema}}.operation where id = any (array(select id from over)) returning 1
)
select count(*)::int from gone
