-- Acts of operators. A row is written before the change and closed after it. A row without an outcome
-- is under way, or whoever began it died (`seen_at` tells which).

create table {{schema}}.audit (
    id uuid primary key,
    by text collate "C" not null,
    verb text collate "C" not null,
    target text collate "C" not null,
    which text,
    arguments text,
    begun_at timestamptz not null,
    seen_at timestamptz not null,
    closed_at timestamptz,
    outcome text,
    changed bigint not null default 0,
    error text
);
create index audit_newest on {{schema}}.audit (begun_at, id);
create index audit_by on {{schema}}.audit (by, begun_at, id);
create index audit_target on {{schema}}.audit (target, begun_at, id) where target <> '';
