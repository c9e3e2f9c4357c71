-- $1 now   $2 bucket   $3 settings (null: those of the limit)
insert into {{schema}}.bucket (name, override, touched_at)
values ($2::text, $3::jsonb, {{now}})
on conflict (name) do update set override = excluded.override
returning name
