insert into holdfast_audit (id, "by", verb, target, which, arguments, begun_at, seen_at)
values (:id, :by, :verb, :target, :which, :arguments, :now, :now)
on conflict (id) do update set seen_at = excluded.seen_at, closed_at = null, outcome = null, error = null
