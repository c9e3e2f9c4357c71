-- Picking jobs of a queue whose jobs age: the least of ready_at + priority * aging goes first. A level is a priority,
-- of jobs without limits or of lines; the first job of each level is compared.
-- uses: lines turns
local pick_aged

do
    local AGED_BATCH = 16
    local aging

    -- How old jobs are: since when each waits, and its priority. One that cannot be read comes first, and is put aside.
    local function ages_of(members, priority)
        local keys, ages = {}, {}
        for n, member in ipairs(members) do
            keys[n] = partition .. ':s:' .. string.match(member, '^[^ ]+', SEQ_LENGTH + 1)
        end
        for n, blob in ipairs(#keys > 0 and redis.call('MGET', unpack(keys)) or {}) do
            local is_read, record = pcall(cmsgpack.unpack, blob)
            local since = is_read and type(record) == 'table' and record[READY_AT]
            ages[n] = (tonumber(since) or 0) + priority * aging
        end
        return ages
    end

    -- The jobs of one task at one priority: its next one, and how old it is.
    local function look(stream)
        if stream.at > #stream.members and not stream.is_short then
            local bounds = {stream.priority, stream.priority, 'LIMIT', stream.read, AGED_BATCH}
            stream.members = redis.call('ZRANGEBYSCORE', stream.line.key, unpack(bounds))
            stream.ages, stream.at = ages_of(stream.members, stream.priority), 1
            stream.read, stream.is_short = stream.read + AGED_BATCH, #stream.members < AGED_BATCH
        end
        return stream.members[stream.at], stream.ages[stream.at]
    end

    local function plain_levels(queue, served)
        local by_priority, levels = {}, {}
        for _, entry in ipairs(redis.call('ZRANGE', partition .. ':heads:' .. queue, 0, -1)) do
            local task = string.sub(entry, SEQ_LENGTH + 1)
            local name = line(queue, task)
            local key = partition .. ':ready:' .. name
            local of_task = {queue = queue, task = task, name = name, key = key, taken = 0, members = {}}
            local first = is_known(task) and first_of(key) or {}
            while first[2] do
                by_priority[first[2]] = by_priority[first[2]] or {}
                table.insert(by_priority[first[2]], {
                    line = of_task, priority = tonumber(first[2]), read = 0, members = {}, ages = {}, at = 1
                })
                first = redis.call('ZRANGEBYSCORE', key, '(' .. first[2], '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
            end
        end
        for _, streams in pairs(by_priority) do
            levels[#levels + 1] = {streams = streams, queue = queue, served = served}
        end
        return levels
    end

    -- Its first job: of several tasks that which arrived first.
    local function look_at_plain(level)
        local earliest
        level.age = nil
        for _, stream in ipairs(total_room(level.queue) > 0 and level.streams or {}) do
            local member, age = look(stream)
            if member and (not earliest or member < earliest) then
                earliest, level.stream, level.age, level.priority = member, stream, age, stream.priority
            end
        end
    end

    local function take_plain(level)
        local stream = level.stream
        local of_task, member = stream.line, stream.members[stream.at]
        if of_task.taken == 0 then
            level.served[#level.served + 1] = of_task
        end
        stream.at, of_task.taken = stream.at + 1, of_task.taken + 1
        of_task.members[of_task.taken] = member
        count_in_total(level.queue, 1)
        return {member, stream.priority}
    end

    -- The line whose turn it is, which gives a few jobs at its turn.
    local function look_at_lines(level)
        level.age = nil
        if not level.line or is_over(level.line) or level.given == QUANTUM then
            level.line, level.given = level.next_line(), 0
        end
        local one = level.line
        if one then
            local first = redis.call('ZRANGE', one.jobs, one.taken, one.taken)
            level.age, level.priority = ages_of(first, one.priority)[1] or 0, one.priority
        end
    end

    local function take_of_line(level)
        level.given = level.given + 1
        return serve_one(level.line)
    end

    -- Of jobs that are equally old, the one of the better priority goes first.
    local function is_before(one, other)
        return one.age < other.age or (one.age == other.age and one.priority < other.priority)
    end

    local function first_of_levels(levels)
        local first
        for _, level in ipairs(levels) do
            if level.look then
                level.look(level)
                level.look = nil
            end
            if level.age and (not first or is_before(level, first)) then
                first = level
            end
        end
        return first
    end

    -- At most so many jobs of a queue: member, priority, …, and how old each is. Lines of jobs without limits that give
    -- some are added to `served`.
    function pick_aged(queue, seconds, most, served)
        local picked, ages, levels = {}, {}, takes_plain() and plain_levels(queue, served) or {}
        aging = seconds * 1000000
        for n = 1, #levels do
            levels[n].look, levels[n].take = look_at_plain, take_plain
        end
        for _, next_line in pairs(levels_of_lines(queue)) do
            levels[#levels + 1] = {next_line = next_line, look = look_at_lines, take = take_of_line}
        end
        while #picked < 2 * most do
            local first = first_of_levels(levels)
            if not first then
                break
            end
            local age, given = first.age, first.take(first)
            if given[1] then
                picked[#picked + 1], picked[#picked + 2], ages[#ages + 1] = given[1], given[2], age
            end
            for _, level in ipairs(levels) do
                level.look = level.next_line and look_at_lines or look_at_plain
            end
        end
        return picked, ages
    end
end
