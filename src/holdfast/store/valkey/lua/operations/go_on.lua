-- Let operations run that are stopped or wait.
-- KEYS: partition
-- ARGV: now chosen
-- uses: time unrefused operations
--
-- Answers the ids of those that run now.
return set_state(cmsgpack.unpack(chosen), {stopped = true, waiting = true}, 'running')
