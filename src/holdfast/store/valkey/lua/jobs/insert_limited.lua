-- Add jobs with limits that are plain otherwise, as insert_ready.lua does those without.
-- KEYS: partition
-- ARGV: now arrival channel lines
-- uses: fresh counts names limited wake
--
-- `lines`: see `write_jobs`. Answers 1; or 0, and nothing is changed, when one of the ids is there
-- already: then insert.lua has to look at each.
local given, by_name, by_queue = cmsgpack.unpack(lines), {}, {}
local entering, rows = write_jobs(given)
if not entering then
    return 0
end
for n, row in ipairs(rows) do
    local queue, jobs = given[row + LINE_QUEUE], #entering[n] / 2
    local name = line(queue, given[row + LINE_TASK])
    by_name[name] = (by_name[name] or 0) + jobs
    by_queue[queue] = (by_queue[queue] or 0) + jobs
    local limited = permits.line_name(name, given[row + LINE_PRIORITY], given[row + LINE_BUCKETS])
    permits.join(limited, true, given[row + LINE_WEIGHT])
    redis.call('ZADD', partition .. ':limited:' .. limited, unpack(entering[n]))
end
permits.write()
for name, jobs in pairs(by_name) do
    tally('ready:' .. name, jobs)
    note_moves('enqueued:' .. name, jobs)
end
for queue, jobs in pairs(by_queue) do
    tell_of_ready(channel, queue, jobs)
end
return 1
