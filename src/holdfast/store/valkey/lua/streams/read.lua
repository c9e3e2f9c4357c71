-- What there is behind positions of streams.
-- KEYS: partition
-- ARGV: most wanted
-- uses: streams record
--
-- `wanted`: [job, stream, id of the entry before] each. Answers for each whether its job is live, and
-- the ids and the rows of at most so many entries.
local answer = {}

for n, want in ipairs(cmsgpack.unpack(wanted)) do
    local id = want[1]
    load({id})
    local found = {}
    for _, entry in ipairs(redis.call('XRANGE', frames_key(id, want[2]), '(' .. want[3], '+', 'COUNT', most)) do
        found[#found + 1] = entry[1]
        found[#found + 1] = entry[2][2]
    end
    answer[n] = {records[id] and LIVE[records[id][STATE]] and 1 or 0, found}
end
return answer
