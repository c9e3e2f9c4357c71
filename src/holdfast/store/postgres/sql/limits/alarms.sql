-- $1 how many
-- Who looks at the same time tells others.
select name from {{schema}}.bucket where alarms & 3 <> 0 order by name limit $1::int for update skip locked
