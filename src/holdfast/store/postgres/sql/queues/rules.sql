-- $1 name
select settings::text from {{schema}}.queue where name = $1::text
