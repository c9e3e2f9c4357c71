-- $1 now   $2 id   $3 request   $4 progress
insert into {{schema}}.operation (id, request, state, revision, progress, begun_at, advanced_at)
values ($2::uuid, $3::text, 'running', 1, $4::text, {{now}}, {{now}})
on conflict (id) do nothing
