select schedule.name, found.at
from {{schema}}.schedule
cross join lateral (
    select at from {{schema}}.schedule_cursor
    where schedule_cursor.schedule = schedule.name and schedule_cursor.scope = '' limit 1
) as found
