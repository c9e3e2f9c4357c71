select queue, task, times from holdfast_ever
union all
select queue, task, times from holdfast_measure
where minute >= (select rolled from holdfast_rolling)
