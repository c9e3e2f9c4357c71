-- Acts of operators. A row is written before the change and closed after it. A row without an outcome
-- is under way, or whoever began it died (`seen_at` tells which).

create table holdfast_audit (
    id text primary key,
    "by" text not null,
    verb text not null,
    target text not null,
    which text,
    arguments text,
    begun_at integer not null,
    seen_at integer not null,
    closed_at integer,
    outcome text,
    changed integer not null default 0,
    error text
) without rowid;
create index holdfast_audit_newest on holdfast_audit (begun_at, id);
create index holdfast_audit_by on holdfast_audit ("by", begun_at, id);
create index holdfast_audit_target on holdfast_audit (target, begun_at, id) where target <> '';
