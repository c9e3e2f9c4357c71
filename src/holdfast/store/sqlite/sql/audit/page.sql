-- name: all
select id, "by", verb, target, which, arguments, begun_at, seen_at, closed_at, outcome, changed, error
from holdfast_audit
where {{parts/audit_page}}

-- name: by
select id, "by", verb, target, which, arguments, begun_at, seen_at, closed_at, outcome, changed, error
from holdfast_audit
where "by" = :by and {{parts/audit_page}}

-- name: of a target
select id, "by", verb, target, which, arguments, begun_at, seen_at, closed_at, outcome, changed, error
from holdfast_audit
where target = :target and target <> '' and {{parts/audit_page}}
