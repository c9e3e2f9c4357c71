-- $1 limit
-- The books and overrides of another kind of limit mean nothing any more.
update {{schema}}.bucket
set override = null, spent = 0, since = 0, scale = 0, slices = '{}', units = '{}', alarms = 0
where name >= $1::text || ':' and name < $1::text || ';'
