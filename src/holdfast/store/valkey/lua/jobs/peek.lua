-- Which jobs a claim would give, without giving them: members and priorities for each want.
-- KEYS: partition
-- ARGV: now wants tasks
-- uses: time names queues lines
local answer = {}
for n, want in ipairs(cmsgpack.unpack(wants)) do
    answer[n] = is_open(want[1]) and (pick(want[1], want[2])) or {}
end
return answer
