-- $1 what it is to be for the rest of the transaction, null: as it is. Answers with what it was.
with before as materialized (
    select current_setting('lock_timeout') as value
)
select before.value, set_config('lock_timeout', coalesce($1::text, before.value), true) from before
