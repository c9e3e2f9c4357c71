-- Which task undoes a step, as JSON. A job with such a step has the tie 64.
alter table holdfast_step add column undo text;
