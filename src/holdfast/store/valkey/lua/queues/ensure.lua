-- Add queues that are absent, never overwriting what an operator tuned.
-- KEYS: partition
-- ARGV: rows
-- uses: unrefused
--
-- `rows`: [name, row], each row packed as parts/queues.lua describes it.
for _, one in ipairs(cmsgpack.unpack(rows)) do
    redis.call('HSETNX', partition .. ':queues', one[1], one[2])
end
return 1
