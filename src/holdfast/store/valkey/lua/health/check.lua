-- Check some jobs. Answers those without a record or body, those that are not in the lists that their
-- record names, by the time or priority that it says, and how many of these were put there. The ids were read by an
-- earlier call: a job of which nothing is left was removed meanwhile, and nothing is wrong with it.
-- KEYS: partition
-- ARGV: now chosen repair
-- uses: time record counts changes names places listed
--
-- `chosen`: ids. `repair` is '1' to put jobs where they are missing. A job that was put aside is in no list.
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

-- Note the entries that a job should have and has not, or has with another score. Answers whether the job is where its record says.
local function note_missing(id, record, missing)
    local lists, before = lists_of(id, record), #missing
    for name, members in pairs(lists or {}) do
        for member, score in pairs(members) do
            if score and tonumber(redis.call('ZSCORE', partition .. ':' .. name, member)) ~= score then
                missing[#missing + 1] = {name, member, score}
            end
        end
    end
    local is_listed = redis.call('ZSCORE', partition .. ':live', id) and true or false
    return lists and #missing == before and is_listed == (LIVE[record[STATE]] or false)
        and (record[STATE] ~= 'ready' or is_served(record))
end

local by_id = {'live'}
for state in pairs(UNTIMED) do
    by_id[#by_id + 1] = 'untimed:' .. state
end
for state in pairs(ENDED) do
    by_id[#by_id + 1] = 'ended:' .. state
end

-- Whether a job whose record cannot be read is there still: the record is damaged, or a list names the job.
local function is_left(id)
    for _, name in ipairs(by_id) do
        if redis.call('ZSCORE', partition .. ':' .. name, id) then
            return true
        end
    end
    return redis.call('EXISTS', partition .. ':s:' .. id) == 1
end

local function is_placed(id, record)
    return lists_of(id, record) and not (ENDED[record[STATE]] and redis.call('ZSCORE', partition .. ':live', id))
end

local ids, bodiless, misplaced, missing = cmsgpack.unpack(chosen), {}, {}, {}
load(ids)
for _, id in ipairs(ids) do
    local record = records[id]
    if is_aside(id) then
        -- doctor shows it
    elseif not record then
        bodiless[#bodiless + 1] = is_left(id) and id or nil
    elseif redis.call('EXISTS', partition .. ':b:' .. id) == 0 then
        bodiless[#bodiless + 1] = id
    elseif not note_missing(id, record, missing) then
        misplaced[#misplaced + 1] = id
    end
end
if repair == '' or #misplaced == 0 then
    return {bodiless, misplaced, 0}
end

local placed = 0
for _, id in ipairs(misplaced) do
    placed = placed + (is_placed(id, records[id]) and 1 or 0)
end
for _, one in ipairs(missing) do
    put(one[1], one[2], one[3])
end
for _, id in ipairs(misplaced) do
    local record = records[id]
    if record[STATE] == 'running' then
        workers_touched[record[WORKER]] = true
    elseif record[STATE] == 'ready' then
        if record[BUCKETS] and not permits.has_line(record) then
            permits.forget_lines({permits.line_of(record)}) -- `flush` opens it
        end
        wake('ready:' .. record[QUEUE])
    end
end
flush()
for _, id in ipairs(misplaced) do
    local record = records[id]
    if record[STATE] == 'ready' and not record[BUCKETS] then
        restore_head(record[QUEUE], record[TASK])
    end
end
return {bodiless, misplaced, placed}
