-- Which task undoes a step, as JSON. A job with such a step has the tie 64.
alter table {{schema}}.step add column undo text;
