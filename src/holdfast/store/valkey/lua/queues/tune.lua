-- Replace the settings of a queue, made if absent. A pause or a cool-down stays.
-- KEYS: partition
-- ARGV: now name row
-- uses: unrefused time record rules held
--
-- A new total counts the jobs of the queue that run already.
local key, total = partition .. ':queues', permits.total_of(name)
local new, old = cmsgpack.unpack(row), redis.call('HGET', key, name)
local most_before
if old then
    local settings = new[QUEUE_SETTINGS]
    new = cmsgpack.unpack(old)
    most_before, new[QUEUE_SETTINGS] = new[QUEUE_SETTINGS].max_running, settings
end
redis.call('HSET', key, name, cmsgpack.pack(new))
local most = new[QUEUE_SETTINGS].max_running
if most == most_before then
    return 1
end

local texts = {}
for id, record in pairs(most and load_held() or {}) do
    if record[QUEUE] == name and not record[TOTAL] then
        permits.count_in_receipt(record)
        texts[#texts + 1], texts[#texts + 2] = partition .. ':s:' .. id, packed(record)
    end
end
for first = 1, #texts, 2000 do
    redis.call('MSET', unpack(texts, first, math.min(first + 1999, #texts)))
end
if #texts > 0 then
    local counted = permits.change(total)
    counted[BUCKET_IN_USE] = counted[BUCKET_IN_USE] + #texts / 2
end
look_again(total)
permits.save()
local channel = partition:gsub(':%d+}$', '}') .. ':wake'
redis.call('PUBLISH', channel, 'fleet:' .. name)
redis.call('PUBLISH', channel, 'ready:' .. name)
return 1
