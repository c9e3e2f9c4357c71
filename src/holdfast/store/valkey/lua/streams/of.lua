-- What streams jobs have, by section.
-- KEYS: partition
-- ARGV: chosen
-- uses: streams
--
-- Answers for each section of a stream: the job, the stream, the section, what is kept, how many frames,
-- how many bytes, when the newest was written, whether the stream is closed.
local answer = {}

local function count(id, stream)
    local sections = {}
    for _, entry in ipairs(redis.call('XRANGE', frames_key(id, stream), '-', '+')) do
        local row = cmsgpack.unpack(entry[2][2])
        local name = row[FRAMES_SECTION]
        local sums = sections[name] or {id, stream, name, row[FRAMES_KEEP], 0, 0, 0, false}
        sums[4], sums[5], sums[6] = row[FRAMES_KEEP], sums[5] + row[FRAMES_NUMBER], sums[6] + #row[FRAMES_DATA]
        sums[7], sums[8] = row[FRAMES_AT], sums[8] or row[FRAMES_CLOSES]
        sections[name] = sums
    end
    for _, sums in pairs(sections) do
        answer[#answer + 1] = cmsgpack.pack(sums)
    end
end

for _, id in ipairs(cmsgpack.unpack(chosen)) do
    for _, stream in ipairs(redis.call('HKEYS', streams_key(id))) do
        count(id, stream)
    end
end
return answer
