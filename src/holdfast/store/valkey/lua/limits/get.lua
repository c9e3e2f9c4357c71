-- Some buckets as they stand: for each its rule and its row, packed or false, how many lines are parked there, and how
-- many of those can never pass.
-- KEYS: partition
-- ARGV: now chosen
-- uses: time parking
local answer, names = {}, cmsgpack.unpack(chosen)
permits.load(names)
for _, bucket in ipairs(names) do
    local rule = permits.rule(bucket)
    answer[#answer + 1] = rule and cmsgpack.pack(rule) or false
    answer[#answer + 1] = cmsgpack.pack(permits.row(bucket))
    answer[#answer + 1] = redis.call('ZCARD', partition .. ':parked:' .. bucket)
    answer[#answer + 1] = permits.stuck(bucket)
end
return {string.format('%.0f', moment), answer}
