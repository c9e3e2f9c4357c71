-- $1 now   $2 id   $3 revision   $4 state   $5 progress   $6 the page in hand   $7 what an undo needs
with moved as (
    update {{schema}}.operation
    set state = $4::text, progress = $5::text, hand = $6::text, revision = revision + 1,
        advanced_at = {{now}}
    where id = $2::uuid and revision = $3::int
    returning id
),
remembered as (
    insert into {{schema}}.operation_kept (operation, number, jobs)
    select id, (
        select coalesce(max(number), 0) + 1 from {{schema}}.operation_kept
        where operation = $2::uuid
    ), $7::text
    from moved where $7::text is not null
)
select id from moved
