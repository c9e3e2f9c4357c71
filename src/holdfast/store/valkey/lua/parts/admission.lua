-- Picking jobs with limits: the lines whose turn it is, as far as all their buckets have room. Nothing is
-- written before `take_admitted`; picking may be begun again.
-- uses: lines limited
local MOST_OPENED = 100
local FEWEST_LINES, QUANTUM = 16, 4
local has_limited = redis.call('EXISTS', partition .. ':lines') == 1
local begin_admission, admit, admitted, drop_admitted, take_admitted, reopen_lines

do
    local rooms, known_lines

    -- Let lines go on that are parked at buckets with room, as many at each as it has room for.
    function reopen_lines()
        local buckets = redis.call(
            'ZRANGEBYSCORE', partition .. ':opening', '-inf', string.format('%.0f', moment), 'LIMIT', 0, MOST_OPENED
        )
        for _, bucket in ipairs(buckets) do
            local parked, room = partition .. ':parked:' .. bucket, permits.room(bucket)
            local members = room > 0 and redis.call('ZRANGE', parked, 0, room - 1, 'WITHSCORES') or {}
            for n = 1, #members, 2 do
                local turn = string.sub(members[n], 1, TURN_LENGTH)
                local name = string.sub(members[n], TURN_LENGTH + 1)
                redis.call('ZREM', parked, members[n])
                redis.call('HSET', partition .. ':lines', name, 'o' .. turn)
                redis.call('ZADD', partition .. ':open:' .. permits.parts_of_line(name), members[n + 1], members[n])
            end
            permits.row(bucket)[BUCKET_HAS_WAITING] = redis.call('EXISTS', parked) == 1
            permits.keep(bucket)
        end
    end

    function begin_admission()
        admitted, rooms, known_lines = {}, {}, {}
    end

    local function open_line(member, priority)
        if not known_lines[member] then
            local name = string.sub(member, TURN_LENGTH + 1)
            local queue, task, _, buckets = permits.parts_of_line(name)
            local one = {
                member = member, line = name, queue = queue, task = task, name = line(queue, task),
                key = partition .. ':limited:' .. name, priority = tonumber(priority), taken = 0, buckets = {}
            }
            for bucket in string.gmatch(buckets, '[^\n]+') do
                one.buckets[#one.buckets + 1] = bucket
                rooms[bucket] = rooms[bucket] or permits.room(bucket)
            end
            known_lines[member] = one
        end
        return known_lines[member]
    end

    -- How many jobs the buckets of a line have room for. A line that meets a full bucket will be parked there.
    local function room_for(one, most)
        for _, bucket in ipairs(one.buckets) do
            most = math.min(most, rooms[bucket])
            if most <= 0 then
                one.parked_at = bucket
                return 0
            end
        end
        return most
    end

    -- Add the next jobs of a line to `picked`: member, priority, member, … Returns how many.
    local function serve(one, most, picked)
        local room = room_for(one, most)
        local jobs = room > 0 and redis.call('ZRANGE', one.key, one.taken, one.taken + room - 1) or {}
        if not one.is_admitted then
            one.is_admitted = true
            admitted[#admitted + 1] = one
        end
        for _, member in ipairs(jobs) do
            picked[#picked + 1], picked[#picked + 2] = member, one.priority
        end
        for _, bucket in ipairs(one.buckets) do
            rooms[bucket] = rooms[bucket] - #jobs
        end
        one.taken, one.is_over = one.taken + #jobs, #jobs < most
        return #jobs
    end

    -- The open lines of a queue from a place on: those of tasks that the worker knows.
    local function lines_from(queue, first, count)
        local found = redis.call('ZRANGE', partition .. ':open:' .. queue, first, first + count - 1, 'WITHSCORES')
        local some = {}
        for n = 1, #found, 2 do
            local one = open_line(found[n], found[n + 1])
            if is_known(one.task) and not one.is_over then
                some[#some + 1] = one
            end
        end
        return some, #found / 2
    end

    -- At most so many jobs of a queue: member, priority, … `below`: only lines of a better priority, and at this
    -- one at most half of what is left.
    function admit(queue, most, below)
        local picked, given, first, share = {}, 0, 0, nil
        repeat
            local count = math.max(FEWEST_LINES, most - given)
            local some, read = lines_from(queue, first, count)
            local before
            repeat
                before = given
                local size = math.max(QUANTUM, math.ceil((most - given) / math.max(#some, 1)))
                for _, one in ipairs(some) do
                    if below and one.priority > below then
                        return picked
                    elseif below and one.priority == below and not share then
                        share = given + math.ceil((most - given) / 2)
                    end
                    local left = (share or most) - given
                    if left <= 0 then
                        return picked
                    elseif not one.is_over then
                        given = given + serve(one, math.min(size, left), picked)
                    end
                end
            until given == before
            first = first + read
        until read < count
        return picked
    end

    -- Take a job out of its line that cannot be read.
    function drop_admitted(id)
        for _, one in ipairs(admitted) do
            for _, member in ipairs(redis.call('ZRANGE', one.key, 0, one.taken - 1)) do
                if string.sub(member, SEQ_LENGTH + 1) == id then
                    redis.call('ZREM', one.key, member)
                    tally('ready:' .. one.name, -1)
                    return
                end
            end
        end
    end

    -- Where a line goes whose jobs were given, or that met a full bucket.
    local function put_back(one)
        local set, lines = partition .. ':open:' .. one.queue, partition .. ':lines'
        redis.call('ZREM', set, one.member)
        if redis.call('EXISTS', one.key) == 0 then
            redis.call('HDEL', lines, one.line)
        elseif one.parked_at then
            local turn = string.sub(one.member, 1, TURN_LENGTH)
            redis.call('HSET', lines, one.line, 'p' .. turn .. one.parked_at)
            redis.call('ZADD', partition .. ':parked:' .. one.parked_at, one.priority, one.member)
            permits.row(one.parked_at)[BUCKET_HAS_WAITING] = true
        else
            local turn = permits.next_turn()
            redis.call('HSET', lines, one.line, 'o' .. turn)
            redis.call('ZADD', set, one.priority, turn .. one.line)
        end
    end

    -- Take the picked jobs off their lines and count them in their buckets.
    function take_admitted()
        local touched = {}
        for _, one in ipairs(admitted) do
            if one.taken > 0 then
                redis.call('ZREMRANGEBYRANK', one.key, 0, one.taken - 1)
            end
            put_back(one)
            for _, bucket in ipairs(one.buckets) do
                local row = permits.row(bucket)
                row[BUCKET_IN_USE] = row[BUCKET_IN_USE] + one.taken
                touched[bucket] = touched[bucket] or one.taken > 0 or one.parked_at == bucket
            end
        end
        for bucket, is_changed in pairs(touched) do
            if is_changed then
                permits.keep(bucket)
            end
        end
    end
end
