-- $1 schedule   $2 scopes
select asked.scope, found.at
from unnest($2::text[]) as asked (scope)
cross join lateral (
    select at from {{schema}}.schedule_cursor
    where schedule = $1::text and schedule_cursor.scope = asked.scope limit 1
) as found
