-- Whole records at one moment: for each id its record, body, progress and error history.
-- KEYS: partition
-- ARGV: newest chosen
--
-- `chosen`: ids. `newest` is '1' when only the newest error is wanted.
local answer = {}
for n, id in ipairs(cmsgpack.unpack(chosen)) do
    answer[n] = {
        redis.call('GET', partition .. ':s:' .. id),
        redis.call('GET', partition .. ':b:' .. id),
        redis.call('GET', partition .. ':p:' .. id),
        redis.call('LRANGE', partition .. ':e:' .. id, newest == '1' and -1 or 0, -1)
    }
end
return answer
