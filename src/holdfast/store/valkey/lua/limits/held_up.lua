-- Count the ready jobs that wait at buckets which count no job. Of very many lines, some are looked at.
-- KEYS: partition
-- ARGV: now queues tasks
-- uses: time buckets
local MOST_LINES = 10000
local served, known, jobs = {}, {}, 0
for _, name in ipairs(cmsgpack.unpack(queues)) do
    served[name] = true
end
for _, name in ipairs(cmsgpack.unpack(tasks)) do
    known[name] = true
end
local found = redis.call('HRANDFIELD', partition .. ':lines', MOST_LINES, 'WITHVALUES')
for n = 1, #found, 2 do
    local queue, task = permits.parts_of_line(found[n])
    local bucket = string.sub(found[n + 1], TURN_LENGTH + 2)
    local is_held = bucket ~= '' and permits.row(bucket)[BUCKET_IN_USE] == 0 and permits.room(bucket) == 0
    if is_held and served[queue] and known[task] then
        jobs = jobs + redis.call('ZCARD', partition .. ':limited:' .. found[n])
    end
end
return jobs
