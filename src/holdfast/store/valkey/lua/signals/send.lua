-- Keep signals for live jobs, and make those ready that are suspended for them.
-- KEYS: partition
-- ARGV: now arrival by most largest chosen
-- uses: unrefused time arrival record counts changes names places queues moves signals
--
-- `chosen`: a NewSignalRow each. `most`: signals that a job may have, without OWN_SIGNALS. `largest`: bytes that those may
-- take that no step has taken. Answers a word of `Sent` for each.
local kept_otherwise = 0

local function why_not(id, given)
    local size, number = #given[NEW_SIGNAL_VALUE], 0
    for _, one in ipairs(signals_of(id)) do
        local row = one[2]
        if row[SIGNAL_KEY] == given[NEW_SIGNAL_KEY] then
            return 'duplicate'
        end
        number = number + (string.sub(row[SIGNAL_NAME], 1, #OWN_SIGNALS) == OWN_SIGNALS and 0 or 1)
        size = size + (row[SIGNAL_VALUE] and #row[SIGNAL_VALUE] or 0)
    end
    if has_ended(id, given[NEW_SIGNAL_BEFORE]) then
        return 'late'
    end
    return (number >= tonumber(most) or size > tonumber(largest)) and 'full'
end

local function keep(id, record, given)
    local row = {}
    row[SIGNAL_NAME], row[SIGNAL_VALUE] = given[NEW_SIGNAL_NAME], given[NEW_SIGNAL_VALUE]
    row[SIGNAL_KEY], row[SIGNAL_TAKEN_BY], row[SIGNAL_AT] = given[NEW_SIGNAL_KEY], false, moment
    local number = redis.call('HLEN', signals_key(id)) + 1 -- none is ever removed
    redis.call('HSET', signals_key(id), number, cmsgpack.pack(row))
    if not has_steps(record) then
        record[TIES] = record[TIES] + TIE_STEPS
        changed[id] = true
    end
end

local function send(given)
    local id, name = given[NEW_SIGNAL_ID], given[NEW_SIGNAL_NAME]
    local record = records[id]
    if not record then
        return 'unknown'
    elseif not LIVE[record[STATE]] then
        return 'ended'
    end
    local refused = why_not(id, given)
    if refused then
        return refused
    end
    keep(id, record, given)
    if record[STATE] == 'suspended' and is_awaited(id, name) then
        wake_for(id, record, name, arrive(given[NEW_SIGNAL_INDEX]), by)
        return 'woke'
    end
    return 'kept'
end

local batch, ids, answer = cmsgpack.unpack(chosen), {}, {}
for n = 1, #batch do
    ids[n] = batch[n][NEW_SIGNAL_ID]
end
load(ids)
for n = 1, #batch do
    answer[n] = send(batch[n])
end
flush()
return answer
