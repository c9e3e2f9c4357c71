-- Count the ready jobs that wait at buckets which count no job, or that need other labels than these, if any are given.
-- Of very many lines, some are looked at.
-- KEYS: partition
-- ARGV: now queues tasks labels
-- uses: time parking
local MOST_LINES = 10000

local function set_of(packed)
    local names = {}
    for _, name in ipairs(cmsgpack.unpack(packed)) do
        names[name] = true
    end
    return names
end

local served, known, jobs = set_of(queues), set_of(tasks), 0
local mine = cmsgpack.unpack(labels) and set_of(labels)

local function needs_others(wanted)
    for label in string.gmatch(mine and wanted or '', '[^+]+') do
        if not mine[label] then
            return true
        end
    end
    return false
end

local found = redis.call('HRANDFIELD', partition .. ':lines', MOST_LINES, 'WITHVALUES')
for n = 1, #found, 2 do
    local queue, group = permits.group_of(found[n])
    local task, wanted = string.match(group, '^([^\n]*)\n(.*)$')
    if served[queue] and known[task] then
        local _, need, bucket = permits.place(found[n + 1])
        local is_held = bucket and permits.row(bucket)[BUCKET_IN_USE] == 0 and permits.free(bucket) < need
        if is_held or needs_others(wanted) then
            jobs = jobs + redis.call('ZCARD', partition .. ':limited:' .. found[n])
        end
    end
end
return jobs
