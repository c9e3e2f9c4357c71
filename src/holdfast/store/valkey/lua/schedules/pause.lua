-- Keep schedules from firing.
-- KEYS: partition
-- ARGV: now chosen
-- uses: time schedules
--
-- `chosen`: names. Answers the names of those that exist.
local answer = {}
for _, name in ipairs(cmsgpack.unpack(chosen)) do
    local row = schedule_row(name)
    if row then
        if not row[SCHEDULE_PAUSED] then
            row[SCHEDULE_PAUSED], row[SCHEDULE_PAUSED_AT] = true, moment
            row[SCHEDULE_RESUMED_AT] = false
            row[SCHEDULE_REVISION] = row[SCHEDULE_REVISION] + 1
            keep_schedule(name, row)
        end
        answer[#answer + 1] = name
    end
end
if #answer > 0 then
    tell_evaluators()
end
return answer
