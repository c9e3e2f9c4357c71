-- Some buckets as they stand: for each its rule and its row, packed or false, how many lines are parked there,
-- and the microseconds until it opens, or false.
-- KEYS: partition
-- ARGV: now chosen
-- uses: time buckets
local answer = {}
for _, bucket in ipairs(cmsgpack.unpack(chosen)) do
    local rule, opening = permits.rule(bucket), permits.opening(bucket)
    answer[#answer + 1] = rule and cmsgpack.pack(rule) or false
    answer[#answer + 1] = cmsgpack.pack(permits.row(bucket))
    answer[#answer + 1] = redis.call('ZCARD', partition .. ':parked:' .. bucket)
    answer[#answer + 1] = opening and string.format('%.0f', opening - moment) or false
end
return {string.format('%.0f', moment), answer}
