-- The flows that a job has started: calls of tasks, and flows as a whole.
create index holdfast_flow_parent on holdfast_flow (parent) where parent is not null;
