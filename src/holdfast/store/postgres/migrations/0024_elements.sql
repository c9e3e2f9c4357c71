-- Elements of a map are added to a flow by one statement (sql/flows/add_elements.sql), so that the flow is
-- locked for no round trip.

-- Decides about a growth by elements, and does what belongs to their flow: locks it, counts the nodes,
-- writes the graph, and a gate for each node that waits for them. `first` is the id of the first element: it
-- is there if the same growth was made before, and then all of it is looked at node by node. So it is if a node
-- that is to wait for them waits no more. Answers `known` then, and otherwise as `holdfast.flow.model.Grown`
-- does; and the number of these gates.
create function {{schema}}.grow_by_elements(
    grown uuid, adder uuid, held bigint, first uuid, nodes int, waiting uuid[], told text
)
returns table (answer text, gate bigint) language plpgsql
set enable_nestloop = off set enable_seqscan = off set enable_bitmapscan = off set jit = off
set plan_cache_mode = force_generic_plan
as $$
declare
    now_in text;
    number bigint;
    targets bigint;
begin
    select state into now_in from {{schema}}.flow where id = grown for update;
    if now_in is null or now_in not in ('running', 'paused') then
        return query select 'over', number;
        return;
    end if;
    if not exists (select from {{schema}}.lease where job_id = adder and fence = held)
        or not exists (select from {{schema}}.node where job_id = adder and flow_id = grown)
    then
        return query select 'not held', number;
        return;
    end if;
    select count(*) into targets from unnest(waiting) as asked (id)
    where exists (select from {{schema}}.blocked where blocked.job_id = asked.id)
    and exists (select from {{schema}}.node where node.job_id = asked.id and node.flow_id = grown);
    if targets < cardinality(waiting) or exists (select from {{schema}}.node where job_id = first) then
        return query select 'known', number;
        return;
    end if;
    -- first_gate in holdfast/flow/model.py
    update {{schema}}.flow set total = total + nodes, open = open + nodes, epoch = epoch + 1
    where id = grown returning epoch << 20 into number;
    insert into {{schema}}.flow_graph (flow_id, n, graph)
    select grown, 1 + coalesce((
        select n from {{schema}}.flow_graph where flow_id = grown order by n desc limit 1
    ), 0), told;
    insert into {{schema}}.gate (job_id, n, flow_id, need, total, losers)
    select job_id, number, grown, nodes, nodes, 'let_run' from unnest(waiting) as given (job_id);
    return query select 'grown', number;
end $$;
