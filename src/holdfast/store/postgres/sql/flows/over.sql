-- $1 now   $2 limit
-- Locks ended flows whose time to be kept is over, earliest first; those that somebody else has locked
-- are passed by.
select id::text from {{schema}}.flow
where expires_at <= {{now}} order by expires_at limit $2::int for update skip locked
