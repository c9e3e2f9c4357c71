-- $1 now   $2 limit
with over as materialized (
    select ctid from {{schema}}.shelf where expires_at <= {{now}}
    order by expires_at limit $2::int for update skip locked
),
gone as (
    delete from {{schema}}.shelf where ctid = any (array(select ctid from over)) returning 1
)
select count(*)::int from gone
