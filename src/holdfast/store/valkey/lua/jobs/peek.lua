-- Which jobs a claim would give, without giving them: members and priorities for each want.
-- KEYS: partition
-- ARGV: now wants tasks labels only
-- uses: time names counts queues lines admission
local answer = {}
for n, want in ipairs(cmsgpack.unpack(wants)) do
    answer[n] = is_open(want[1]) and (pick(want[1], want[2])) or {}
    if redis.call('EXISTS', partition .. ':lines') == 1 and is_open(want[1]) then
        begin_admission()
        for _, value in ipairs(admit(want[1], want[2])) do
            table.insert(answer[n], value)
        end
    end
end
return answer
