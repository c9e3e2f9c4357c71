-- $1 buckets, which the caller has locked
delete from {{schema}}.bucket where name = any ($1::text[]) returning name
