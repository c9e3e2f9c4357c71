-- $1 now   $2 limit   $3 seconds that acts are kept
with over as materialized (
    select ctid from {{schema}}.audit
    where begun_at <= {{now}} - $3::float8 * interval '1 second'
    order by begun_at, id limit $2::int for update skip locked
),
gone as (
    delete from {{schema}}.audit where ctid = any (array(select ctid from over)) returning 1
)
select count(*)::int from gone
