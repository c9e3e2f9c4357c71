-- $1 names
-- Until the transaction ends nobody else records plans of these schedules. It is a statement of its
-- own, so that the next statement's snapshot holds what the recorder before has written.
select name from {{schema}}.schedule where name = any ($1::text[]) order by name for no key update
