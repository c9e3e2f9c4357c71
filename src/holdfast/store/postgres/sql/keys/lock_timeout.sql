-- $1 the timeout for the rest of the transaction (null: as it is)
-- Answers with the timeout before.
with before as materialized (
    select current_setting('lock_timeout') as value
)
select before.value, set_config('lock_timeout', coalesce($1::text, before.value), true) from before
