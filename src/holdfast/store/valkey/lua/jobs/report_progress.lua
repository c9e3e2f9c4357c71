-- Keep the progress of running attempts; what is not said stays as it was.
-- KEYS: partition
-- ARGV: now reports
-- uses: unrefused time record counts changes
--
-- `reports`: [id, fence, fraction, message, checkpoint]. Answers 1 or 0 for each.
local batch, ids, answer = cmsgpack.unpack(reports), {}, {}
for n = 1, #batch do
    ids[n] = batch[n][1]
end
load(ids)

local function keep(id, report)
    local key = 'p:' .. id
    local before = texts[key] or redis.call('GET', partition .. ':' .. key)
    local fraction, message, checkpoint
    if before then
        fraction, message, checkpoint = cmsgpack.unpack(before)
    end
    texts[key] = cmsgpack.pack(
        report[3] or fraction, report[4] or message, report[5] or checkpoint, moment
    )
    if not records[id][HAS_PROGRESS] then
        records[id][HAS_PROGRESS] = true
        changed[id] = true
    end
end

for n = 1, #batch do
    local record = records[ids[n]]
    local ours = record and record[STATE] == 'running' and record[FENCE] == batch[n][2]
    if ours then
        keep(ids[n], batch[n])
    end
    answer[n] = ours and 1 or 0
end
flush()
return answer
