-- $1 now   $2 limit
-- Locks ended flows whose time to be kept is over, earliest first; those that somebody else has locked
-- are passed by, and so are those whose parent is still to be ended.
select id::text from {{schema}}.flow
where expires_at <= {{now}} and not exists (
    select from {{schema}}.errand where errand.flow_id = flow.id and errand.kind = 'parent'
)
order by expires_at limit $2::int for update skip locked
