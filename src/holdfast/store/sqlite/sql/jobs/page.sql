-- Each place is read downwards by its own key, and SQLite merges the places, so a page reads no more
-- rows than its filters make it pass over. `:ended` spares a page of live jobs the history.
-- `limit -1` keeps the planner from dropping the inner order.
with p as (
    select job_id, ended, queue, task, reason
    from holdfast_place
    where (:ended or not ended)
        and job_id < :cursor
        and (:states is null or state in (select value from json_each(:states)))
    order by job_id desc
    limit -1
)
select p.job_id
from p
where (:ids is null or p.job_id in (select value from json_each(:ids)))
    and {{parts/filter}}
limit :limit
