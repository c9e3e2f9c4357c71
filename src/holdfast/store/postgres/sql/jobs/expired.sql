-- $1 now   $2 limit   $3 from which time on, null: all
-- Ended jobs whose time to be kept is over, earliest first.
select job_id::text, expires_at from {{schema}}.outcome
where expires_at <= {{now}}
and expires_at >= coalesce($3::timestamptz, '-infinity')
order by expires_at limit $2::int
