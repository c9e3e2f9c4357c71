-- $1 the name of the lock: one migration at a time in a schema. Ends with the transaction.
select pg_advisory_xact_lock(hashtextextended($1::text, 0))
