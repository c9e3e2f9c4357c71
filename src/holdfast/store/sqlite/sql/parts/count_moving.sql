-- the jobs that leave their queue for another, before they do
select queue, task, count(*)
from {{place}}
where job_id in (select value from json_each(?)) and queue <> ?
group by queue, task
