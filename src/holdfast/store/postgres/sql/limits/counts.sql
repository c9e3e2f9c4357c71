-- $1 limits
-- Which of these limits count something.
select distinct split_part(name, ':', 1) as name from {{schema}}.bucket
where in_use <> 0 and split_part(name, ':', 1) = any ($1::text[])
