-- $1 now   $2 id   $3 by   $4 verb   $5 target   $6 which   $7 arguments
insert into {{schema}}.audit (id, by, verb, target, which, arguments, begun_at, seen_at)
values ($2::uuid, $3::text, $4::text, $5::text, $6::text, $7::text, {{now}}, {{now}})
on conflict (id) do update
set seen_at = excluded.seen_at, closed_at = null, outcome = null, error = null
