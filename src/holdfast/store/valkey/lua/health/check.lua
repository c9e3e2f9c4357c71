-- Check some jobs. Answers those without a record or body, and those that are not in the place that
-- their record names.
-- KEYS: partition
-- ARGV: now chosen
-- uses: time record counts changes names places
local served = {}

-- Whether a claim would find the line of a ready job.
local function is_served(record)
    local queue = record[QUEUE]
    if record[BUCKETS] then
        return permits.has_line(record)
    elseif not served[queue] then
        served[queue] = {}
        for _, entry in ipairs(redis.call('ZRANGE', partition .. ':heads:' .. queue, 0, -1)) do
            served[queue][string.sub(entry, SEQ_LENGTH + 1)] = true
        end
    end
    return served[queue][record[TASK]]
end

local function is_there(id, record)
    local state = record[STATE]
    local is_state = LIVE[state] or ENDED[state]
    if not is_state or (state == 'ready' and not is_served(record)) then
        return false
    end
    sorted = {}
    settle(id, record, true)
    for name, members in pairs(sorted) do
        for member in pairs(members) do
            if not redis.call('ZSCORE', partition .. ':' .. name, member) then
                return false
            end
        end
    end
    local is_listed = redis.call('ZSCORE', partition .. ':live', id) and true or false
    return is_listed == (LIVE[state] or false)
end

local ids, bodiless, misplaced = cmsgpack.unpack(chosen), {}, {}
load(ids)
for _, id in ipairs(ids) do
    local record = records[id]
    if not record or redis.call('EXISTS', partition .. ':b:' .. id) == 0 then
        bodiless[#bodiless + 1] = id
    elseif not is_there(id, record) then
        misplaced[#misplaced + 1] = id
    end
end
return {bodiless, misplaced}
