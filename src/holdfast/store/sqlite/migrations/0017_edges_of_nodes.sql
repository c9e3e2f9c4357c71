-- The edges behind a node lie in its row, which its end reads. They are not taken away one by one: an edge
-- counts if its gate is there when the node ends.
alter table holdfast_node add column edges text; -- ids of nodes that wait, each with 32 × gate + wants
alter table holdfast_node add column is_unsettled integer not null default 0; -- its end is not counted yet

update holdfast_node
set edges = (
    select '{' || group_concat('"' || e.downstream || '":' || (32 * e.n + e.wants)) || '}'
    from holdfast_edge as e
    where e.upstream = holdfast_node.job_id
);
update holdfast_node
set is_unsettled = 1
where edges is not null and job_id in (select job_id from holdfast_outcome);

drop table holdfast_edge;
drop index holdfast_gate_flow;
