-- $1 the name of the lock
-- One migration at a time in a schema. The lock ends with the transaction.
select pg_advisory_xact_lock(hashtextextended($1::text, 0))
