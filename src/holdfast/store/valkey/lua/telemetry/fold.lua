-- Fold the moves of minutes that are over into the totals, and forget minutes older than `kept`
-- seconds. Answers how many counts were folded.
-- KEYS: partition
-- ARGV: now limit kept unrolled
-- uses: time rolling
--
-- A minute is folded whole: it has no more counts than there are queues, tasks and words. A closed
-- minute takes no more: what is folded too late counts in the oldest that is open. Minutes from
-- `unrolled` on are not rolled up yet, and are not forgotten.
local this_minute = math.floor(moment / 60000000)
local open = closed()
local old = math.min(math.floor((moment - kept * 1000000) / 60000000), tonumber(unrolled))
local forgotten = redis.call('ZRANGEBYSCORE', partition .. ':minutes', '-inf', old - 1, 'LIMIT', 0, limit)
for _, minute in ipairs(forgotten) do
    redis.call('ZREM', partition .. ':minutes', minute)
    redis.call('UNLINK', partition .. ':traffic:' .. minute)
end

local folded = 0
for _, minute in ipairs(redis.call('ZRANGEBYSCORE', partition .. ':unfolded', '-inf', this_minute - 1)) do
    if folded >= tonumber(limit) then
        break
    end
    local moves = redis.call('HGETALL', partition .. ':moves:' .. minute)
    redis.call('ZREM', partition .. ':unfolded', minute)
    redis.call('UNLINK', partition .. ':moves:' .. minute)
    minute = string.format('%.0f', math.max(tonumber(minute), open))
    for n = 1, #moves, 2 do
        redis.call('HINCRBY', partition .. ':totals', moves[n], moves[n + 1])
        redis.call('HINCRBY', partition .. ':traffic:' .. minute, moves[n], moves[n + 1])
    end
    redis.call('ZADD', partition .. ':minutes', minute, minute)
    folded = folded + #moves / 2
end
return folded
