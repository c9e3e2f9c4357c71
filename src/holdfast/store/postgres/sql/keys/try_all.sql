-- $1 keys   $2 how long to wait for each
-- Fails if an open transaction holds one of the keys. The caller rolls it back: it takes free keys.
with bounded as materialized (
    select set_config('lock_timeout', $2::text, true)
)
insert into {{schema}}.unique_key as held (key, job_id, states)
select key, gen_random_uuid(), '{}' from unnest($1::text[]) as asked (key)
where (select true from bounded)
order by key
on conflict (key) do update set epoch = held.epoch where false
