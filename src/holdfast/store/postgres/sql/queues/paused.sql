-- The names that stand for all queues or for the jobs of a task: a star, and what follows it.
select name from {{schema}}.queue where paused and name >= '*' and name < '+'
