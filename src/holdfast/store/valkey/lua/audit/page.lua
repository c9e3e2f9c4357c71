-- Acts newest first, behind the act that the page before ended with.
-- KEYS: partition
-- ARGV: now list cursor before limit
-- uses: time
--
-- `list`: the end of the name of the sorted set to walk. `before`: '' or the time that the begin must
-- come before. Answers the time, then id, row, id, row, …
local key, skip = partition .. list, 0
if cursor ~= '' then
    local rank = redis.call('ZREVRANK', key, cursor)
    if not rank then
        return {string.format('%.0f', moment)}
    end
    skip = rank + 1
end
if before ~= '' then
    skip = math.max(skip, redis.call('ZCOUNT', key, before, '+inf'))
end
local ids = redis.call('ZREVRANGE', key, skip, skip + limit - 1)
local answer = {string.format('%.0f', moment)}
local rows = #ids > 0 and redis.call('HMGET', partition .. ':audit', unpack(ids))
for n = 1, #ids do
    answer[#answer + 1] = ids[n]
    answer[#answer + 1] = rows[n]
end
return answer
