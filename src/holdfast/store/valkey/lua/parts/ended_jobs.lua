-- The ids of jobs that a script ends and that have more to settle: nodes of flows, jobs that have started flows, and
-- jobs whose steps may have to be undone.
local nodes_ended, parents_ended, to_undo = {}, {}, {}
