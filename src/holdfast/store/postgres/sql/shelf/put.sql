-- $1 now   $2 kind   $3 key   $4 value   $5 the revision that must be there (0: none, null: any)
-- $6 seconds after which it is gone (null: it stays)
with given as (
    select {{now}} as at, {{now}} + $6::float8 * interval '1 second' as ends
),
changed as (
    update {{schema}}.shelf s
    set value = $4::text, revision = s.revision + 1, expires_at = given.ends
    from given
    where s.kind = $2::text and s.key = $3::text and $5::bigint > 0 and s.revision = $5::bigint
    and (s.expires_at is null or s.expires_at > given.at)
    returning s.revision
),
made as (
    insert into {{schema}}.shelf as s (kind, key, value, revision, expires_at)
    select $2::text, $3::text, $4::text, 1, ends from given where coalesce($5::bigint, 0) = 0
    on conflict (kind, key) do update set
        value = excluded.value,
        revision = case when s.expires_at <= {{now}} then 1 else s.revision + 1 end,
        expires_at = excluded.expires_at
    where $5::bigint is null or s.expires_at <= {{now}}
    returning s.revision
)
select revision from changed union all select revision from made
