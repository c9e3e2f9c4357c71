-- Gives `failures`: what is folded, and what is not yet. A fingerprint has one task and one kind.
failures as materialized (
    select fingerprint, min(task) as task, min(kind) as kind, sum(times)::bigint as times,
        min(first_at) as first_at, max(last_at) as last_at, max(muted_until) as muted_until,
        max(note) as note
    from (
        select fingerprint, task, kind, times, first_at, last_at, muted_until, note
        from {{schema}}.failure
        union all
        select fingerprint, task, kind, times, at, at, null, null from {{schema}}.failing
    ) as every_one
    group by fingerprint
)
