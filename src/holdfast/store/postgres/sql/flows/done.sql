-- $1 ids
delete from {{schema}}.errand where id = any ($1::bigint[])
