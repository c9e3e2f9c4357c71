-- Taking the jobs that were picked: they leave their lines and count in their buckets, and their lines go to the end of
-- their queue, or are parked.
-- uses: limited admission aside
local drop_admitted, take_admitted

do
    local kinds = permits.kinds

    -- How many jobs of each task and queue were picked.
    local function admitted_by_name()
        local jobs = {}
        for _, one in ipairs(admitted) do
            local name = one.set.name
            jobs[name] = one.given > 0 and (jobs[name] or 0) + one.given or jobs[name]
        end
        return jobs
    end

    -- Take a job out of its line that cannot be read.
    function drop_admitted(id)
        for _, one in ipairs(admitted) do
            local jobs = one.taken > 0 and redis.call('ZRANGE', one.jobs, 0, one.taken - 1) or {}
            for _, member in ipairs(jobs) do
                if string.sub(without_costs(member), SEQ_LENGTH + 1) == id then
                    redis.call('ZREM', one.jobs, member)
                    tally('ready:' .. one.set.name, -1)
                    return
                end
            end
        end
    end

    local function count_units(bucket, units, is_parent)
        local row = permits.count(bucket, units)
        local settings = row and permits.settings(bucket)
        if settings then
            kinds.take(row, settings, units, is_parent)
        end
    end

    local function count_in_buckets()
        for _, one in ipairs(admitted) do
            for n = 1, #one.buckets do
                local units = one.alike + (one.units and one.units[n] or 0)
                if units > 0 then
                    count_units(one.buckets[n], units, one.parents[n])
                end
            end
        end
        for total, jobs in pairs(in_totals) do
            count_units(total, jobs)
        end
    end

    -- Lines of the same key of fairness that were not served have had their share all the same.
    local function push_back(set, known, added, turn_text)
        for _, name in ipairs(redis.call('SMEMBERS', set)) do
            local place = not known[name] and redis.call('HGET', partition .. ':lines', name)
            if place then
                local turn, need, bucket = permits.place(place)
                local queue, group = permits.group_of(name)
                local key = bucket and partition .. ':parked:' .. bucket or permits.open_set(queue, group)
                local score = redis.call('ZSCORE', key, turn .. name)
                local later = turn_text(permits.turn_of(turn) + added)
                redis.call('ZREM', key, turn .. name)
                redis.call('ZADD', key, score, later .. name)
                place = bucket and permits.parked_place(later, need, bucket) or permits.open_place(later)
                redis.call('HSET', partition .. ':lines', name, place)
                if bucket then
                    permits.regroup(bucket)
                end
            end
        end
    end

    local function push_back_kin()
        local known = {}
        for _, one in ipairs(admitted) do
            known[one.line] = true
        end
        for set, added in pairs(of_kin) do
            push_back(set, known, added, permits.turn_texts(redis.call('SCARD', set)))
        end
    end

    -- Remember how far the turns of a queue and priority have come: as far as the line that was served first. Others that
    -- were served with it may have been further on.
    local function keep_last_turns()
        local least = {}
        for _, one in ipairs(admitted) do
            if one.given > 0 then
                local of_queue = permits.list_of(least, one.set.queue)
                of_queue[one.priority] = math.min(of_queue[one.priority] or math.huge, permits.turn_of(one.member))
            end
        end
        for queue, of_queue in pairs(least) do
            for priority, turn in pairs(of_queue) do
                if turn > permits.last_turn(queue, priority) then
                    permits.keep_last_turn(queue, priority, turn)
                end
            end
        end
    end

    -- Take the picked jobs off their lines, and the lines from those that are open.
    local function take_lines()
        local gone, ended, emptied = {}, {}, {}
        for _, one in ipairs(admitted) do
            local members = permits.list_of(gone, one.set.key)
            members[#members + 1] = one.member
            if one.is_empty then
                ended[#ended + 1], emptied[#emptied + 1] = one.line, one.jobs
                if one.fair then
                    permits.leave_kin(one.line)
                end
            elseif one.taken > 0 then
                redis.call('ZREMRANGEBYRANK', one.jobs, 0, one.taken - 1)
            end
        end
        permits.each_of('ZREM', gone)
        if #emptied > 0 then
            redis.call('UNLINK', unpack(emptied))
            permits.forget_lines(ended)
        end
        return #admitted - #ended
    end

    -- Let jobs stand aside that cost more than a bucket ever lets pass. The next claim serves what came behind them.
    local function stand_aside()
        local queues = {}
        for _, one in ipairs(asides) do
            local member = without_costs(one.entry)
            local id, costs = string.sub(member, SEQ_LENGTH + 1), string.sub(one.entry, #member + 2)
            local is_read, record = pcall(cmsgpack.unpack, redis.call('GET', partition .. ':s:' .. id))
            if is_read then
                local name = permits.aside(one.line.line, costs)
                record[BUCKETS] = permits.aside(record[BUCKETS], costs)
                redis.call('SET', partition .. ':s:' .. id, cmsgpack.pack(record))
                redis.call('ZADD', partition .. ':limited:' .. name, 0, one.entry)
                permits.join(name, true, record[WEIGHT])
            else
                tally('ready:' .. one.line.set.name, -1)
                put_aside(id)
            end
            queues[one.line.set.queue] = true
        end
        permits.write()
        for queue in pairs(queues) do
            unfinished[queue] = true
        end
    end

    -- Count the picked jobs in their buckets. A line that is not empty goes to the end of its queue, or is parked.
    -- Answers how many jobs of each task and queue were picked.
    function take_admitted()
        count_in_buckets()
        if #admitted == 0 then
            permits.save()
            return {}
        end
        local places, coming, turn_text = {}, {}, permits.turn_texts(take_lines())
        push_back_kin()
        for _, one in ipairs(admitted) do
            if not one.is_empty then
                local at = one.parked_at
                local turn = one.has_gone_on and turn_text(one.turn) or string.sub(one.member, 1, TURN_LENGTH)
                local members = permits.list_of(coming, at and partition .. ':parked:' .. at or one.set.key)
                members[#members + 1] = at and permits.park(at, one.priority, one.need) or one.priority
                members[#members + 1] = turn .. one.line
                places[#places + 1] = one.line
                places[#places + 1] = at and permits.parked_place(turn, one.need, at) or permits.open_place(turn)
            end
        end
        permits.each_of('ZADD', coming)
        permits.each('HSET', partition .. ':lines', places)
        for _, one in ipairs(admitted) do
            if not coming[one.set.key] and not one.set.is_looked_at then
                one.set.is_looked_at = true
                permits.forget_empty_group(one.set.queue, one.set.group)
            end
        end
        keep_last_turns()
        permits.save()
        if #asides > 0 then
            stand_aside()
        end
        for queue in pairs(unfinished) do
            redis.call('PUBLISH', partition:gsub(':%d+}$', '}') .. ':wake', 'ready:' .. queue)
        end
        return admitted_by_name()
    end
end
