-- Stop operations that run or wait.
-- KEYS: partition
-- ARGV: now chosen
-- uses: time unrefused operations
--
-- Answers the ids of those that were stopped.
return set_state(cmsgpack.unpack(chosen), {running = true, waiting = true}, 'stopped')
