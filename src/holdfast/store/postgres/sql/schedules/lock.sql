-- $1 names. Until the transaction ends no other records plans of these schedules. A statement of its
-- own: the next one sees what the recorder before had written.
select name from {{schema}}.schedule where name = any ($1::text[]) order by name for no key update
