-- `:ended` is known before any row is read: counting live jobs does not read the history.
select p.state, count(*)
from holdfast_place as p
where (:ended or not p.ended)
    and (:ids is null or p.job_id in (select value from json_each(:ids)))
    and (:states is null or p.state in (select value from json_each(:states)))
    and {{parts/filter}}
group by p.state
