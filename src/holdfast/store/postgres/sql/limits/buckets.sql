-- $1 limit (null: all)   $2 how many   $3 behind which bucket (null: from the first)
select name from {{schema}}.bucket
where ($1::text is null or name >= $1::text || ':' and name < $1::text || ';')
and ($3::text is null or name > $3::text)
order by name
limit $2::int
