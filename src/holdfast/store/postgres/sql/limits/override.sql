-- $1 now   $2 bucket   $3 settings (null: those of the limit)
-- As in declare.sql, the server has to know the time zone.
insert into {{schema}}.bucket (name, override, touched_at)
select $2::text, $3::jsonb, {{now}} from {{schema}}.period_of($3::jsonb, now())
on conflict (name) do update set override = excluded.override
returning name
