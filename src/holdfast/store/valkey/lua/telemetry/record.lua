-- Write down what sources have measured. Answers the oldest minute that is not closed.
-- KEYS: partition
-- ARGV: rows
-- uses: rolling
--
-- `rows`: [minute, field, number, times]. A value is its number, in digits that sort as text, and then
-- the times. Rows of closed minutes are not taken, and an older number never replaces a newer one.
for _, row in ipairs(cmsgpack.unpack(rows)) do
    local minute, field, number = row[1], row[2], string.format('%0' .. NUMBER_LENGTH .. 'd', row[3])
    if minute >= closed() then
        local key = partition .. ':measures:' .. string.format('%.0f', minute)
        local old = redis.call('HGET', key, field)
        if not old or string.sub(old, 1, NUMBER_LENGTH) < number then
            redis.call('HSET', key, field, number .. row[4])
            redis.call('ZADD', partition .. ':measured', minute, minute)
        end
    end
end
return string.format('%.0f', closed())
