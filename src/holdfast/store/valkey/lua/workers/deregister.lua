-- Remove a worker that is leaving. The jobs that it still holds become reclaimable.
-- KEYS: partition
-- ARGV: worker facts
-- uses: unrefused keep_counts
--
-- `facts`: its last ones, or '' for those of its last beat.
keep_counts(worker, facts)
redis.call('ZREM', partition .. ':leases', worker)
if redis.call('HDEL', partition .. ':workers', worker) == 1 then
    redis.call('PUBLISH', partition:gsub(':%d+}$', '}') .. ':wake', 'fleet:')
end
redis.call('HDEL', partition .. ':wake_counters', 'cancel:' .. worker)
return 1
