-- $1 now   $2 ids   $3 names   $4 numbers of nodes   $5 unique keys   $6 tags   $7 parents   $8 keeps
-- $9 how long to wait for a unique key that an open transaction holds (null: as the transaction does)
-- Answers with the flows that it wrote. The others are there already, or a live flow has their key.
-- Keys are taken in their order, so that two starts never wait for each other in a circle.
with bounded as materialized (
    select case when $9::text is not null then set_config('lock_timeout', $9::text, true) end
)
insert into {{schema}}.flow (id, name, state, total, open, unique_key, tags, parent, keep, created_at)
select id, name, 'running', nodes, nodes, unique_key, tags::text[], parent, keep::jsonb, {{now}}
from unnest($2::uuid[], $3::text[], $4::int[], $5::text[], $6::text[], $7::uuid[], $8::text[])
    with ordinality as given (id, name, nodes, unique_key, tags, parent, keep, n)
where (select true from bounded)
order by unique_key, n
on conflict do nothing
returning id::text
