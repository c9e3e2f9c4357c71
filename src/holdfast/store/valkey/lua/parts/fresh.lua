-- Writing new jobs that are ready at once.
-- uses: time arrival
--
-- The caller packs all of a record but the arrival number and the two times, which go between the
-- pieces, and the spread, which is its last byte: nothing is packed here for each job. The record of a job with
-- limits goes on behind the spread, and ends with it once more.

-- `given`: of each line the values of a LineRow, and behind them id, body and index of each job, all in one list.
-- Answers a list for each line: score, member, score, … of its jobs, and where the rows are; or nil, and nothing is
-- changed, when one of the ids is there already.
local function write_jobs(given)
    local at_moment = cmsgpack.pack(moment)
    local records_of, bodies_of = partition .. ':s:', partition .. ':b:'
    local texts, live, entering, rows, count, at = {}, {}, {}, {}, 0, 0
    while at < #given do
        local first, last = at + LINE_WIDTH + 1, at + LINE_WIDTH + given[at + LINE_VALUES]
        local before_seq = given[at + LINE_BEFORE_SEQ]
        local behind_seq = given[at + LINE_BEFORE_READY_AT] .. at_moment
            .. given[at + LINE_BEFORE_CREATED_AT] .. at_moment .. given[at + LINE_BEFORE_SPREAD]
        local more, costs = given[at + LINE_BEFORE_LAST_SPREAD], given[at + LINE_COSTS]
        local behind_id = costs and ' ' .. costs or ''
        local score = more and '0' or string.format('%.0f', given[at + LINE_PRIORITY])
        local members, entered = {score, ''}, 0 -- with room for one job: many lines have no other
        for j = first, last, 3 do
            local id, seq, n = given[j], arrive(given[j + 2]), 4 * count
            local spread = string.char(given[j + 2] % SPREADS)
            if more then
                spread = spread .. more .. spread
            end
            texts[n + 1], texts[n + 2] = records_of .. id, before_seq .. seq .. behind_seq .. spread
            texts[n + 3], texts[n + 4] = bodies_of .. id, given[j + 1]
            members[entered + 1], members[entered + 2] = score, seq .. id .. behind_id
            live[2 * count + 1], live[2 * count + 2] = '0', id
            count, entered = count + 1, entered + 2
        end
        rows[#rows + 1], entering[#entering + 1], at = at, members, last
    end
    if redis.call('MSETNX', unpack(texts)) == 0 then
        return nil
    end
    redis.call('ZADD', partition .. ':live', unpack(live))
    return entering, rows
end
