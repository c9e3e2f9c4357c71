-- Drop the deadline entries of jobs that have ended or do not exist.
-- KEYS: partition
-- ARGV: chosen
-- uses: record
local ids = cmsgpack.unpack(chosen)
load(ids)
for _, id in ipairs(ids) do
    if not records[id] or ENDED[records[id][STATE]] then
        redis.call('ZREM', partition .. ':deadlines', id)
    end
end
return 1
