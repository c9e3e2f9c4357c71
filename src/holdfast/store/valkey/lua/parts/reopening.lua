-- Letting lines go on that are parked at buckets which have room again.
-- uses: limited
local MOST_OPENED, MOST_REOPENED = 1000, 1000
local reopen_lines

do
    -- Take lines from a bucket at which they are parked: in their order, as far as there is room for the first job of
    -- each.
    local function unpark(bucket, places, opened)
        local gone = {}
        for _, parked in ipairs(permits.parked_with_room(bucket, MOST_REOPENED)) do
            local queue, group = permits.group_of(parked.line)
            local open = permits.list_of(opened, permits.open_set(queue, group))
            open.queue, open.group = queue, group
            gone[#gone + 1] = parked.member
            places[#places + 1], places[#places + 2] = parked.line, permits.open_place(parked.turn)
            open[#open + 1], open[#open + 2] = parked.priority, parked.member
        end
        permits.each('ZREM', partition .. ':parked:' .. bucket, gone)
    end

    -- Let lines go on that are parked at buckets with room.
    function reopen_lines()
        local buckets = redis.call(
            'ZRANGEBYSCORE', partition .. ':opening', '-inf', string.format('%.0f', moment), 'LIMIT', 0, MOST_OPENED
        )
        if #buckets == 0 then
            return
        end
        local places, opened = {}, {}
        permits.load(buckets)
        for _, bucket in ipairs(buckets) do
            unpark(bucket, places, opened)
        end
        permits.each('HSET', partition .. ':lines', places)
        permits.each_of('ZADD', opened)
        for _, open in pairs(opened) do
            redis.call('SADD', partition .. ':groups:' .. open.queue, open.group)
        end
    end
end
