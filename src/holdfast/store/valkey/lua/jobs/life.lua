-- What happened to jobs: for each id its errors, and its other happenings.
-- KEYS: partition
-- ARGV: chosen
--
-- `chosen`: ids.
local answer = {}
for n, id in ipairs(cmsgpack.unpack(chosen)) do
    answer[n] = {
        redis.call('LRANGE', partition .. ':e:' .. id, 0, -1),
        redis.call('LRANGE', partition .. ':h:' .. id, 0, -1)
    }
end
return answer
