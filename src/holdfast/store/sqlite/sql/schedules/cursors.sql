select c.scope, c.at
from json_each(:scopes) as wanted
cross join holdfast_schedule_cursor as c on c.schedule = :name and c.scope = wanted.value
