-- Remove a worker that is leaving. The jobs that it still holds become reclaimable.
-- KEYS: partition
-- ARGV: worker
redis.call('ZREM', partition .. ':leases', worker)
redis.call('HDEL', partition .. ':workers', worker)
redis.call('HDEL', partition .. ':wake_counters', 'cancel:' .. worker)
return 1
