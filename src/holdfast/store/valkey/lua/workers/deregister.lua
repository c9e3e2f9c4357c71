-- Remove a worker that is leaving; what it still holds becomes reclaimable.
-- KEYS: partition
-- ARGV: worker
redis.call('ZREM', partition .. ':leases', worker)
redis.call('HDEL', partition .. ':workers', worker)
redis.call('HDEL', partition .. ':wake_counters', 'cancel:' .. worker)
return 1
