-- Add plain jobs: without ties, ready at once, with neither a unique key nor a deadline. Most are.
-- KEYS: partition
-- ARGV: now arrival channel lines
-- uses: fresh counts heads wake
--
-- `lines`: see `write_jobs`. Answers 1; or 0, and nothing is changed, when one of the ids is there
-- already: then insert.lua has to look at each.
local given, woken = cmsgpack.unpack(lines), {}
local entering, rows = write_jobs(given)
if not entering then
    return 0
end
for n, row in ipairs(rows) do
    local queue, task = given[row + LINE_QUEUE], given[row + LINE_TASK]
    woken[queue] = (woken[queue] or 0) + #entering[n] / 2
    local name = #queue .. ':' .. queue .. ':' .. task
    local key, members = partition .. ':ready:' .. name, entering[n]
    redis.call('ZADD', key, unpack(members))
    local first = first_of(key)
    if first[1] == members[2] then
        local behind = #members / 2
        update_head(queue, task, redis.call('ZRANGE', key, behind, behind, 'WITHSCORES'), first)
    end
    tally('ready:' .. name, #members / 2)
    note_moves('enqueued:' .. name, #members / 2)
end
for queue, jobs in pairs(woken) do
    tell_of_ready(channel, queue, jobs)
end
return 1
