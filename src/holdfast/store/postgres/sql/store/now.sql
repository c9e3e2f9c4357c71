-- $1 now
select coalesce($1::timestamptz, statement_timestamp())
