select s.name, c.at
from holdfast_schedule as s
cross join holdfast_schedule_cursor as c on c.schedule = s.name and c.scope = ''
