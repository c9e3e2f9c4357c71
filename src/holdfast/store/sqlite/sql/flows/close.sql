-- name: cancelling
update holdfast_flow
set state = 'cancelling', cancel_asked = 1, epoch = epoch + 1, reason = :reason
where id in (select value from json_each(:ids)) and finished_at is null
returning id

-- name: live
select id from holdfast_flow where id in (select value from json_each(:ids)) and finished_at is null
