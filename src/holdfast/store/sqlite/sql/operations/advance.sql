-- name: advance
update holdfast_operation
set state = :state, progress = :progress, hand = :hand, revision = revision + 1, advanced_at = :now
where id = :id and revision = :revision
returning id

-- name: keep
insert into holdfast_operation_kept (operation, number, jobs)
values (:id, (
    select coalesce(max(number), 0) + 1 from holdfast_operation_kept where operation = :id
), :kept)
