-- $1 key of fairness   $2 weight (null: as the jobs say)
with forgotten as (
    delete from {{schema}}.weight where fair = $1::text and $2::int is null
),
said as (
    insert into {{schema}}.weight (fair, weight) select $1::text, $2::int where $2::int is not null
    on conflict (fair) do update set weight = excluded.weight
)
update {{schema}}.line set weight = coalesce($2::int, weight) where fair = $1::text
