-- $1 names
-- Locked, so that two changes of a total come one after the other.
select name, settings::text from {{schema}}.queue where name = any ($1::text[]) order by name for update
