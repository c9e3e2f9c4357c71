-- Live jobs that a schedule started in these scopes, oldest plan first.
-- KEYS: partition
-- ARGV: schedule scopes
-- uses: ledger started
--
-- Answers a list of ids for each scope.
local wanted, mine, all = cmsgpack.unpack(scopes), {}, {}
for n = 1, #wanted do
    local ids = started_in(schedule, wanted[n], -1)
    for i = 1, #ids do
        ids[i] = job_of(ids[i], wanted[n])
        all[#all + 1] = ids[i]
    end
    mine[n] = ids
end
local live, answer = living(all), {}
for n = 1, #wanted do
    local found = {}
    for _, id in ipairs(mine[n]) do
        if live[id] then
            found[#found + 1] = id
        end
    end
    answer[n] = found
end
return answer
