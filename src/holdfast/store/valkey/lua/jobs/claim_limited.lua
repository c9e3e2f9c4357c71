-- Give the first ready jobs of these queues and tasks to a worker: with limits and without.
-- KEYS: partition
-- ARGV: now worker wants tasks labels only inline kinds
-- uses: claiming limits_matter reopening turns admitted aging
--
-- Answers as `claim_jobs` does, but false instead of the time where limits do not matter: then claim.lua will do.
-- `kinds`: 'both', or where jobs without limits lie in several partitions 'lines' or 'plain'. A want of lines has behind
-- its other values the priority of the first job without limits, if there is one. Where jobs age, both are given.
local function choose_without_limits(want, before)
    local most = math.min(want[2] - before, total_room(want[1]))
    if most <= 0 then
        return before
    end
    local count = choose_plain(want, before, most)
    count_in_total(want[1], count - before)
    return count
end

-- Where jobs with limits and jobs without wait at one priority, each kind has half, and what the other leaves.
local function choose_both(want)
    local queue, limit, free = want[1], want[2], want[3]
    local first_plain = takes_plain() and first_priority(queue)
    local count = note_picked(admit(queue, limit, first_plain), 0, free)
    if first_plain and count < limit then
        count = choose_without_limits(want, count)
        if count < limit then
            note_picked(admit(queue, limit - count), count, free)
        end
    end
end

local function choose_from(want)
    local aging = setting_of(want[1], 'aging')
    if aging then
        note_picked(pick_aged(want[1], aging, want[2], served), 0, want[3])
    elseif kinds == 'lines' then
        note_picked(admit(want[1], want[2], want[4]), 0, want[3])
    elseif kinds == 'plain' then
        choose_without_limits(want, 0)
    else
        choose_both(want)
    end
end

local function count_in_receipt(record)
    if record[BUCKETS] then
        record[BUCKETS] = permits.not_aside(record[BUCKETS])
    end
    if setting_of(record[QUEUE], 'max_running') then
        permits.count_in_receipt(record)
    end
end

local function most_wanted()
    local most = 0
    for _, want in ipairs(wanted) do
        most = most + want[2]
    end
    return most
end

local do_limits_matter = limits_matter(wanted)
reopen_lines()
local given = claim_jobs(choose_from, {
    begin = begin_admission, give = count_in_receipt, drop = drop_admitted, take = take_admitted
})
-- A line that was let go on at one bucket may have met another that is full. Then somebody else can go on at the first
-- one: the next claim lets it.
if lines_may_go_on() and #ids < most_wanted() then
    for _, want in ipairs(wanted) do
        redis.call('PUBLISH', partition:gsub(':%d+}$', '}') .. ':wake', 'ready:' .. want[1])
    end
end
given[1] = do_limits_matter and given[1]
return given
