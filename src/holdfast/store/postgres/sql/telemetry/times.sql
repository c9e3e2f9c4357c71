-- What is rolled up and what is not, in one statement: nothing may be counted twice or be missing.
select queue, task, times from {{schema}}.ever
union all
select queue, task, times from {{schema}}.measure
where minute >= (select rolled from {{schema}}.rolling)
