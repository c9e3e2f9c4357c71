-- $1 how many   $2 behind which bucket
-- The buckets are locked by one statement and counted by the next, which sees what is true then.
select name, in_use from {{schema}}.bucket
where name > $2::text
order by name
limit $1::int
for update
