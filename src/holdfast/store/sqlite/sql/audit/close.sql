update holdfast_audit
set closed_at = :now, outcome = :outcome, changed = :changed, error = :error
where id = :id
