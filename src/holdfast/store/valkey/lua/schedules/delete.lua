-- Remove schedules, their cursors and their ledger; jobs they started stay.
-- KEYS: partition
-- ARGV: now chosen
-- uses: time schedules ledger
--
-- `chosen`: names. Answers the names of the removed schedules.
local answer = {}
for _, name in ipairs(cmsgpack.unpack(chosen)) do
    if redis.call('HDEL', partition .. ':schedules', name) == 1 then
        for _, kind in ipairs(LEDGER_KEYS) do
            redis.call('UNLINK', of_schedule(kind, name))
        end
        redis.call('ZREM', partition .. ':ledgers', name)
        answer[#answer + 1] = name
    end
end
if #answer > 0 then
    tell_evaluators()
end
return answer
