-- Close the minutes before `until_minute`, unless moves of one of them are not folded yet. Answers 1 if
-- they are closed.
-- KEYS: partition
-- ARGV: until_minute
-- uses: rolling
if closed() >= tonumber(until_minute) then
    return 1
end
local unfolded = redis.call('ZRANGE', partition .. ':unfolded', 0, 0)[1]
if unfolded and tonumber(unfolded) < tonumber(until_minute) then
    return 0
end
redis.call('SET', partition .. ':closed', until_minute)
return 1
