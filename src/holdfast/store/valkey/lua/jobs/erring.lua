-- Which of these jobs have errors. Answers their ids.
-- KEYS: partition
-- ARGV: chosen
--
-- `chosen`: ids
local answer = {}
for _, id in ipairs(cmsgpack.unpack(chosen)) do
    if redis.call('EXISTS', partition .. ':e:' .. id) == 1 then
        answer[#answer + 1] = id
    end
end
return answer
