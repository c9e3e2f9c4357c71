-- The flows that a job has started: calls of tasks, and flows as a whole.
create index flow_parent on {{schema}}.flow (parent) where parent is not null;
