-- name: over
select id from holdfast_operation
where state <> 'running' and advanced_at <= ? order by begun_at, id limit ?

-- name: kept
delete from holdfast_operation_kept where operation = ?

-- name: operation
delete from holdfast_operation where id = ?
