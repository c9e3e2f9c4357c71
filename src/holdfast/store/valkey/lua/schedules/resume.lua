-- Let schedules fire again; when their pause was stays to be read.
-- KEYS: partition
-- ARGV: now chosen
-- uses: time schedules
--
-- `chosen`: names. Answers those there are.
local answer = {}
for _, name in ipairs(cmsgpack.unpack(chosen)) do
    local row = schedule_row(name)
    if row then
        if row[STOPPED] then
            row[STOPPED], row[RESUMED_AT] = false, moment
            row[REVISION] = row[REVISION] + 1
            keep_schedule(name, row)
        end
        answer[#answer + 1] = name
    end
end
if #answer > 0 then
    tell_evaluators()
end
return answer
