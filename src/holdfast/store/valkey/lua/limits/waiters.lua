-- The first jobs of lines that are parked at a bucket: id, task, queue and what it needs there. Of very many lines, some
-- are looked at.
-- KEYS: partition
-- ARGV: now bucket limit never
-- uses: time parking
--
-- `never` is '1' for those that cost more than the bucket ever lets pass, '' for the others.
local MOST_LINES = 10000
local largest, answer = permits.largest(bucket), {}
local parked = redis.call('ZRANGE', partition .. ':parked:' .. bucket, 0, MOST_LINES - 1)
for _, member in ipairs(parked) do
    local name = string.sub(member, TURN_LENGTH + 1)
    local _, need = permits.place(redis.call('HGET', partition .. ':lines', name))
    local first = redis.call('ZRANGE', partition .. ':limited:' .. name, 0, 0)[1]
    if first and (largest > 0 and need > largest) == (never == '1') and #answer < 4 * tonumber(limit) then
        local queue, task = permits.parts_of_line(name)
        answer[#answer + 1] = string.match(first, '^[^ ]+', SEQ_LENGTH + 1)
        answer[#answer + 1], answer[#answer + 2] = task, queue
        answer[#answer + 1] = string.format('%.0f', need)
    end
end
return answer
