-- Whose turn it is among the open lines of a queue, of those that the worker may serve.
-- uses: lines limited admission
local MOST_PARKED, FEWEST_LINES = 1000, 16
local admit, levels_of_lines, serve_one, takes_plain

do
    local has_weights

    local mine -- the labels of the worker

    local function has_labels(wanted)
        if not mine then
            mine = {}
            for _, label in ipairs(cmsgpack.unpack(labels)) do
                mine[label] = true
            end
        end
        for label in string.gmatch(wanted, '[^+]+') do
            if not mine[label] then
                return false
            end
        end
        return true
    end

    local asked = cmsgpack.unpack(only) -- the labels that a job must need

    local function needs_asked(wanted)
        for _, label in ipairs(asked) do
            if not string.find(wanted .. '+', '+' .. label .. '+', 1, true) then
                return false
            end
        end
        return true
    end

    -- Whether the worker takes jobs that need no label.
    function takes_plain()
        return #asked == 0
    end

    -- The sets of open lines of a queue that the worker may serve, each read from its beginning.
    local function sources_of(queue)
        local sources = {}
        for _, group in ipairs(redis.call('SMEMBERS', partition .. ':groups:' .. queue)) do
            local task, wanted = string.match(group, '^([^\n]*)\n(.*)$')
            if is_known(task) and has_labels(wanted) and needs_asked(wanted) then
                local key = permits.open_set(queue, group)
                sources[#sources + 1] = {
                    queue = queue, group = group, name = line(queue, task), total = total_of(queue), key = key, read = 0,
                    chunk = {}, at = 1
                }
            end
        end
        return sources
    end

    -- The next line of a set; nil if there is none.
    local function first_in(source, size)
        if source.at > #source.chunk and not source.is_short then
            local last = source.read + size - 1
            source.chunk = redis.call('ZRANGE', source.key, source.read, last, 'WITHSCORES')
            source.is_short = #source.chunk < 2 * size
            source.read, source.at = last + 1, 1
        end
        local member, at = source.chunk[source.at], source.at
        return member and open_line(source, member, source.chunk[at + 1])
    end

    -- The next line of several sets, by priority, then turn. It is taken from its set.
    local function next_line(sources, size)
        local first, where
        for _, source in ipairs(sources) do
            local one = first_in(source, size)
            if one and (not first or line_goes_before(one, first)) then
                first, where = one, source
            end
        end
        if first then
            where.at = where.at + 2
        end
        return first
    end

    -- The weights of lines: what an operator says of their key of fairness, or their newest job.
    local function read_weights(some)
        has_weights = has_weights or redis.call('EXISTS', partition .. ':weights')
        if has_weights == 0 or #some == 0 then
            return
        end
        local fields = {}
        for _, one in ipairs(some) do
            fields[#fields + 1], fields[#fields + 2] = one.line, '=' .. (one.fair or '')
        end
        local found = redis.call('HMGET', partition .. ':weights', unpack(fields))
        for n, one in ipairs(some) do
            one.weight = tonumber((one.fair and found[2 * n]) or found[2 * n - 1] or 1)
        end
    end

    -- Up to so many of the next open lines that can be served, and whether there may be more.
    local function next_lines(sources, count)
        local some, buckets = {}, {}
        while #some < count do
            local one = next_line(sources, count)
            if not one then
                break
            end
            if not is_over(one) then
                some[#some + 1] = one
                for n = 1, #one.buckets do
                    buckets[#buckets + 1] = one.buckets[n]
                end
            end
        end
        permits.load(buckets)
        read_weights(some)
        return some, #some == count
    end

    -- A line has given jobs: its turn goes on by what it gave, divided by its weight, and so do the turns of the lines
    -- with the same key of fairness. A line that has waited has earned nothing by it.
    local function go_on(one, jobs, some)
        local added = math.floor(jobs * STRIDE / (one.weight or 1))
        local last = not one.has_gone_on and permits.last_turn(one.set.queue, one.priority)
        if last and last > one.turn then
            one.turn = last
        end
        one.turn, one.has_gone_on = one.turn + added, true
        if one.fair then
            for _, other in ipairs(some) do
                if other ~= one and other.fair == one.fair then
                    other.turn, other.has_gone_on = other.turn + added, true
                end
            end
            local kin = permits.kin_set(one.set.queue, one.priority, one.fair)
            of_kin[kin] = (of_kin[kin] or 0) + added
        end
    end

    -- The lines that have their turn: none is further on than the first one is when it has given so many jobs.
    local function in_turn(some, size)
        local least, chosen = math.huge, {}
        for _, one in ipairs(some) do
            least = is_over(one) and least or math.min(least, one.turn)
        end
        for _, one in ipairs(some) do
            if not is_over(one) and one.turn <= least + size * STRIDE then
                chosen[#chosen + 1] = one
            end
        end
        return chosen
    end

    -- Serve lines of one priority, round by round, until so many jobs are picked or none can be served. Of the lines of
    -- one key of fairness, one has its turn in each round. Answers how many jobs.
    local function serve_all(some, most, picked)
        local given, before, aside_before = 0, nil, nil
        repeat
            local size, had_turn = math.max(QUANTUM, math.ceil((most - given) / #some)), {}
            before, aside_before = given, #asides
            for _, one in ipairs(in_turn(some, size)) do
                if given < most and not (one.fair and had_turn[one.fair]) then
                    local count = serve_line(one, math.min(size, most - given), picked)
                    given = given + count
                    if count > 0 then
                        go_on(one, count, some)
                        if one.fair then
                            had_turn[one.fair] = true
                        end
                    end
                end
            end
        until given == most or given == before and (#asides == aside_before or #asides >= MOST_PARKED)
        return given
    end

    local function by_priority(some)
        local groups = {}
        for _, one in ipairs(some) do
            local last = groups[#groups]
            if last and last[1].priority == one.priority then
                last[#last + 1] = one
            else
                groups[#groups + 1] = {one}
            end
        end
        return groups
    end

    -- At most so many jobs of a queue: member, priority, … `below`: only lines of a better priority, and at this
    -- one about half of what is left. A claim parks some lines and leaves the others to the next claim, so that
    -- no script takes long.
    function admit(queue, most, below)
        local picked, given, share, sources, are_more, looked_at = {}, 0, nil, sources_of(queue), nil, 0
        repeat
            local some
            some, are_more = next_lines(sources, math.max(FEWEST_LINES, math.ceil((most - given) / QUANTUM)))
            for _, group in ipairs(by_priority(some)) do
                local priority = group[1].priority
                if below and priority > below then
                    return picked
                elseif below and priority == below and not share then
                    share = given + math.floor((most - given + server_time % 2) / 2)
                end
                given = given + serve_all(group, (share or most) - given, picked)
                if given >= (share or most) then
                    return picked
                end
            end
            looked_at = looked_at + #some
        until not are_more or looked_at >= MOST_PARKED
        unfinished[queue] = are_more or nil
        return picked
    end

    -- The priorities of open lines, and at each of them sets that are read from there on.
    local function sources_by_priority(queue)
        local found = {}
        for _, source in ipairs(sources_of(queue)) do
            local first = redis.call('ZRANGE', source.key, 0, 0, 'WITHSCORES')
            while first[2] do
                local at = permits.list_of(found, first[2])
                local read = redis.call('ZCOUNT', source.key, '-inf', '(' .. first[2])
                at[#at + 1] = {
                    queue = queue, group = source.group, name = source.name, total = source.total, key = source.key,
                    read = read, chunk = {}, at = 1
                }
                first = redis.call('ZRANGEBYSCORE', source.key, '(' .. first[2], '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
            end
        end
        return found
    end

    -- For queues whose jobs age: priority → a function that answers the next line there, in turn.
    function levels_of_lines(queue)
        local levels = {}
        for priority, sources in pairs(sources_by_priority(queue)) do
            levels[tonumber(priority)] = function()
                local one = next_line(sources, FEWEST_LINES)
                if one and one.priority == tonumber(priority) then
                    permits.load(one.buckets)
                    read_weights({one})
                    return one
                end
            end
        end
        return levels
    end

    -- Serve one job of a line; answers its member and priority in a list, which is empty if it has to wait.
    function serve_one(one)
        local picked = {}
        if serve_line(one, 1, picked) > 0 then
            go_on(one, 1, {})
        end
        return picked
    end
end
