-- name: schedules
delete from holdfast_schedule where name in (select value from json_each(?)) returning name

-- name: cursors
delete from holdfast_schedule_cursor where schedule = ?

-- name: ledger
delete from holdfast_ledger where schedule = ?

-- name: started
delete from holdfast_started where schedule = ?
