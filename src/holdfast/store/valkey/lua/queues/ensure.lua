-- Add queues that are absent. A queue that an operator tuned is never overwritten.
-- KEYS: partition
-- ARGV: rows
-- uses: unrefused
--
-- `rows`: [name, packed row].
for _, one in ipairs(cmsgpack.unpack(rows)) do
    redis.call('HSETNX', partition .. ':queues', one[1], one[2])
end
return 1
