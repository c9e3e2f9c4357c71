-- Writing new jobs that are ready at once.
-- uses: time arrival
--
-- The caller packs all of a record but the arrival number and the two times, which go between the
-- pieces, and the spread, which is its last byte: nothing is packed here for each job. The record of a job with
-- limits goes on behind the spread, and ends with it once more.

-- `lines`: a LineRow each. Answers a list for each: score, member, score, … of its jobs; or nil, and nothing is
-- changed, when one of the ids is there already.
local function write_jobs(lines)
    local at_moment = cmsgpack.pack(moment)
    local records_of, bodies_of = partition .. ':s:', partition .. ':b:'
    local texts, live, entering, count = {}, {}, {}, 0
    for n = 1, #lines do
        local shared = lines[n]
        local before_seq, jobs = shared[LINE_BEFORE_SEQ], shared[LINE_JOBS]
        local behind_seq = shared[LINE_BEFORE_READY_AT] .. at_moment
            .. shared[LINE_BEFORE_CREATED_AT] .. at_moment .. shared[LINE_BEFORE_SPREAD]
        local more, costs = shared[LINE_BEFORE_LAST_SPREAD], shared[LINE_COSTS]
        local behind_id = costs and ' ' .. costs or ''
        local members, score = {}, more and '0' or string.format('%.0f', shared[LINE_PRIORITY])
        for j = 1, #jobs, 3 do
            local id, seq, at = jobs[j], arrive(jobs[j + 2]), 4 * count
            local spread = string.char(jobs[j + 2] % SPREADS)
            if more then
                spread = spread .. more .. spread
            end
            texts[at + 1], texts[at + 2] = records_of .. id, before_seq .. seq .. behind_seq .. spread
            texts[at + 3], texts[at + 4] = bodies_of .. id, jobs[j + 1]
            members[#members + 1] = score
            members[#members + 1] = seq .. id .. behind_id
            live[2 * count + 1], live[2 * count + 2] = '0', id
            count = count + 1
        end
        entering[n] = members
    end
    if redis.call('MSETNX', unpack(texts)) == 0 then
        return nil
    end
    redis.call('ZADD', partition .. ':live', unpack(live))
    return entering
end
