-- Add plain jobs: without ties, ready at once, with neither a unique key nor a deadline. Most are.
-- KEYS: partition
-- ARGV: now arrival channel lines
-- uses: time arrival counts heads wake
--
-- `lines`: a LineRow each. Answers 1; or 0, and nothing is changed, when one of the ids is there
-- already: then insert.lua has to look at each.
--
-- The caller packs all of a record but the arrival number and the two times, which go between the
-- pieces, and the spread, which is its last byte: nothing is packed here for each job.
local at_moment = cmsgpack.pack(moment)
local records_of, bodies_of = partition .. ':s:', partition .. ':b:'
local given, texts, live, entering, count = cmsgpack.unpack(lines), {}, {}, {}, 0
for n = 1, #given do
    local shared = given[n]
    local before_seq, jobs = shared[LINE_BEFORE_SEQ], shared[LINE_JOBS]
    local behind_seq = shared[LINE_BEFORE_READY_AT] .. at_moment
        .. shared[LINE_BEFORE_CREATED_AT] .. at_moment .. shared[LINE_BEFORE_SPREAD]
    local members, score = {}, string.format('%.0f', shared[LINE_PRIORITY])
    for j = 1, #jobs, 3 do
        local id, seq, at = jobs[j], arrive(jobs[j + 2]), 4 * count
        local spread = string.char(jobs[j + 2] % SPREADS)
        texts[at + 1], texts[at + 2] = records_of .. id, before_seq .. seq .. behind_seq .. spread
        texts[at + 3], texts[at + 4] = bodies_of .. id, jobs[j + 1]
        members[#members + 1] = score
        members[#members + 1] = seq .. id
        live[2 * count + 1], live[2 * count + 2] = '0', id
        count = count + 1
    end
    entering[n] = members
end
if redis.call('MSETNX', unpack(texts)) == 0 then
    return 0
end

redis.call('ZADD', partition .. ':live', unpack(live))
local woken = {}
for n = 1, #given do
    local queue, task = given[n][LINE_QUEUE], given[n][LINE_TASK]
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
