-- What suspended jobs wait for, by job and signal.
-- KEYS: partition
-- ARGV: most behind
-- uses: record steps
--
-- `behind`: the member before the first one, '' for none. Answers for each: the job, its task, its
-- queue, the signal, since when, until when (or false).
local answer = {}

-- When the first of the steps began that wait for this signal, and when the first gives up.
local function times(id, fence, signal)
    local since, till = false, false
    local fields = redis.call('HVALS', steps_key(id))
    for n = 1, #fields do
        local row = cmsgpack.unpack(fields[n])
        if row[STEP_FENCE] == fence and row[STEP_AWAITS] == signal then
            since = since and math.min(since, row[STEP_AT]) or row[STEP_AT]
            local ends = row[STEP_UNTIL]
            till = ends and till and math.min(till, ends) or till or ends
        end
    end
    return since, till
end

local first = behind == '' and '-' or '(' .. behind
for _, member in ipairs(redis.call('ZRANGEBYLEX', partition .. ':waits', first, '+', 'LIMIT', 0, most)) do
    local id, signal = member:match('^(%S+) (.*)$')
    load({id})
    local record = records[id]
    if record then
        local since, till = times(id, record[FENCE], signal)
        answer[#answer + 1] = cmsgpack.pack({id, record[TASK], record[QUEUE], signal, since, till})
    end
end
return answer
