select c.scope, c.at
from json_each(?2) as wanted
cross join holdfast_schedule_cursor as c on c.schedule = ?1 and c.scope = wanted.value
