-- Write frames of running attempts, and tell those who follow.
-- KEYS: partition
-- ARGV: now channel chosen
-- uses: unrefused time record counts changes steps
--
-- `chosen`: a NewFramesRow each. Answers 1 or 0 for each. An entry whose id is there already, or is not
-- above the newest one, is not added again.
local batch, ids, answer = cmsgpack.unpack(chosen), {}, {}
local told = {}

local function frames_row(given)
    local row = {}
    row[FRAMES_NUMBER], row[FRAMES_DATA] = given[NEW_FRAMES_NUMBER], given[NEW_FRAMES_DATA]
    row[FRAMES_SECTION], row[FRAMES_SINCE] = given[NEW_FRAMES_SECTION], given[NEW_FRAMES_SINCE]
    row[FRAMES_AGAIN], row[FRAMES_WHOLE] = given[NEW_FRAMES_AGAIN], given[NEW_FRAMES_WHOLE]
    row[FRAMES_CLOSES], row[FRAMES_KEEP] = given[NEW_FRAMES_CLOSES], given[NEW_FRAMES_KEEP]
    row[FRAMES_AT] = moment
    return row
end

-- Remove what is older than this try of the section, or than this whole frame.
local function replace(key, given)
    local gone = {}
    for _, entry in ipairs(redis.call('XRANGE', key, '-', '(' .. given[NEW_FRAMES_REPLACES])) do
        if cmsgpack.unpack(entry[2][2])[FRAMES_SECTION] == given[NEW_FRAMES_SECTION] then
            gone[#gone + 1] = entry[1]
        end
    end
    for first = 1, #gone, 1000 do
        redis.call('XDEL', key, unpack(gone, first, math.min(first + 999, #gone)))
    end
end

local function write(id, record, given)
    local stream = given[NEW_FRAMES_STREAM]
    local key, row = frames_key(id, stream), cmsgpack.pack(frames_row(given))
    local added = redis.pcall('XADD', key, given[NEW_FRAMES_PLACE], 'f', row)
    if type(added) == 'table' and added.err and not added.err:find('equal or smaller') then
        error(added.err)
    end
    redis.call('HSET', streams_key(id), stream, given[NEW_FRAMES_KEEP])
    if given[NEW_FRAMES_KEEP] == 'live' then
        redis.call('ZADD', partition .. ':live_streams', 'NX', moment, id .. ' ' .. stream)
    end
    if given[NEW_FRAMES_REPLACES] then
        replace(key, given)
    end
    if given[NEW_FRAMES_KEEPS_FROM] then
        redis.call('XTRIM', key, 'MINID', given[NEW_FRAMES_KEEPS_FROM])
    end
    if not has_steps(record) then
        record[TIES] = record[TIES] + TIE_STEPS
        changed[id] = true
    end
end

for n = 1, #batch do
    ids[n] = batch[n][NEW_FRAMES_ID]
end
load(ids)
for n = 1, #batch do
    local record = records[ids[n]]
    local ours = record and record[STATE] == 'running' and record[FENCE] == batch[n][NEW_FRAMES_FENCE]
    if ours then
        write(ids[n], record, batch[n])
        if told[#told] ~= ids[n]:sub(-8) then
            told[#told + 1] = ids[n]:sub(-8)
        end
    end
    answer[n] = ours and 1 or 0
end
flush()
if #told > 0 then
    redis.call('PUBLISH', channel .. '_streams', 'streams:' .. table.concat(told, ','))
end
return answer
