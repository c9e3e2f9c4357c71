-- Microseconds until time opens a bucket that holds up jobs of these queues, or false. `queues` is nil for all.
-- KEYS: partition
-- ARGV: now queues most
-- uses: time parking
--
-- The first bucket counts at which a line of these queues is among the first lines, or that has more lines than were
-- looked at. Where none of the first buckets is such a one, the last of them counts.
local asked, last = cmsgpack.unpack(queues), tonumber(most) - 1
local served = {}
for _, queue in ipairs(asked or {}) do
    served[queue] = true
end

local function holds_up(bucket)
    local parked = redis.call('ZRANGE', partition .. ':parked:' .. bucket, 0, last)
    for _, member in ipairs(parked) do
        if served[permits.parts_of_line(string.sub(member, TURN_LENGTH + 1))] then
            return true
        end
    end
    return #parked > last
end

local function first_opening()
    local found = redis.call('ZRANGE', partition .. ':opening', 0, last, 'WITHSCORES')
    for n = 1, #found, 2 do
        if not asked or holds_up(found[n]) then
            return found[n + 1]
        end
    end
    return #found > 2 * last and found[#found]
end

local at = first_opening()
return at and string.format('%.0f', math.max(0, tonumber(at) - moment)) or false
