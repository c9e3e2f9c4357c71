-- $1 names
-- Removes all that belongs to schedules which this transaction deleted.
with cursors as (
    delete from {{schema}}.schedule_cursor where schedule = any ($1::text[])
),
jobs as (
    delete from {{schema}}.started where schedule = any ($1::text[])
)
delete from {{schema}}.ledger where schedule = any ($1::text[])
