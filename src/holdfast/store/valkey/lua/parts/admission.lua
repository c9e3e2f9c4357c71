-- Picking jobs with limits: the lines whose turn it is, as far as all their buckets have room. Nothing is
-- written before `take_admitted`; picking may be begun again.
-- uses: lines limited queues aside
local MOST_OPENED, MOST_REOPENED, MOST_PARKED, FEWEST_LINES = 1000, 1000, 1000, 16
local begin_admission, admit, drop_admitted, take_admitted, reopen_lines
local total_room, count_in_total, levels_of_lines, serve_one, takes_plain, is_over

do
    local kinds = permits.kinds
    local ARGUMENT_BATCH = 2000
    local admitted, rooms, known_lines, first_waiting, in_totals, of_kin, unfinished, has_weights, asides, on_way

    local function each(command, key, list)
        for first = 1, #list, ARGUMENT_BATCH do
            redis.call(command, key, unpack(list, first, math.min(first + ARGUMENT_BATCH - 1, #list)))
        end
    end

    -- The list of a key in a table of lists.
    local function list_of(lists, key)
        lists[key] = lists[key] or {}
        return lists[key]
    end

    local function each_of(command, lists)
        for key, list in pairs(lists) do
            each(command, key, list)
        end
    end

    -- Take lines from a bucket at which they are parked: in their order, as far as there is room for the first job of
    -- each.
    local function unpark(bucket, places, opened)
        local gone = {}
        for _, parked in ipairs(permits.parked_with_room(bucket, MOST_REOPENED)) do
            local queue, group = permits.group_of(parked.line)
            local open = list_of(opened, permits.open_set(queue, group))
            open.queue, open.group = queue, group
            gone[#gone + 1] = parked.member
            places[#places + 1], places[#places + 2] = parked.line, permits.open_place(parked.turn)
            open[#open + 1], open[#open + 2] = parked.priority, parked.member
        end
        each('ZREM', partition .. ':parked:' .. bucket, gone)
    end

    -- Let lines go on that are parked at buckets with room.
    function reopen_lines()
        local buckets = redis.call(
            'ZRANGEBYSCORE', partition .. ':opening', '-inf', string.format('%.0f', moment), 'LIMIT', 0, MOST_OPENED
        )
        if #buckets == 0 then
            return
        end
        local places, opened = {}, {}
        permits.load(buckets)
        for _, bucket in ipairs(buckets) do
            unpark(bucket, places, opened)
        end
        each('HSET', partition .. ':lines', places)
        each_of('ZADD', opened)
        for _, open in pairs(opened) do
            redis.call('SADD', partition .. ':groups:' .. open.queue, open.group)
        end
    end

    function begin_admission()
        admitted, rooms, known_lines, first_waiting, in_totals, of_kin, unfinished = {}, {}, {}, {}, {}, {}, {}
        asides, on_way = {}, {}
    end

    -- The bucket of a queue that has a total; nil for any other.
    local function total_of(queue)
        return setting_of(queue, 'max_running') and permits.total_of(queue)
    end

    -- How many more jobs without limits the total of a queue lets begin.
    function total_room(queue)
        local total = total_of(queue)
        if not total then
            return ROOMY
        end
        rooms[total] = rooms[total] or permits.free(total)
        return rooms[total]
    end

    -- Count jobs without limits in the total of their queue.
    function count_in_total(queue, jobs)
        local total = total_of(queue)
        if total and jobs > 0 then
            rooms[total] = rooms[total] - jobs
            in_totals[total] = (in_totals[total] or 0) + jobs
        end
    end

    -- The buckets that the jobs of a line pass, with the total of their queue if it has one.
    local function passed_by(text, total)
        local buckets, parents = permits.buckets_of(text)
        if not total then
            return buckets, parents
        end
        local all = {unpack(buckets)}
        all[#all + 1] = total
        return all, parents
    end

    -- A line by its entry in the set of open lines. It is made with all its values: a table that grows is made anew.
    -- `jobs`: the set of its jobs. `alike`: how many jobs were taken that cost 1 in each bucket; `units`: what others
    -- cost in each, if there were some. A line that has to wait has `parked_at` and `need` too.
    local function open_line(source, member, priority)
        local one = known_lines[member]
        if not one then
            local name, behind_task = string.sub(member, TURN_LENGTH + 1), #source.name + 1
            local text = string.sub(name, string.find(name, '\n', behind_task + 1, true) + 1)
            local buckets, parents = passed_by(text, source.total)
            one = {
                member = member, line = name, set = source, priority = tonumber(priority), turn = permits.turn_of(member),
                buckets = buckets, parents = parents, jobs = partition .. ':limited:' .. name, fair = permits.fair_of(text),
                alike = 0, units = false, taken = 0, given = 0, is_admitted = false, has_gone_on = false, is_empty = false
            }
            known_lines[member] = one
        end
        return one
    end

    -- Whether a line gives nothing more to this claim.
    function is_over(one)
        return one.is_empty or one.parked_at
    end

    -- The first line that waits at a bucket: its priority, its entry, and what it needs. It is parked there, or will be
    -- when this claim is written.
    local function waiting_at(bucket)
        local first = first_waiting[bucket]
        if first == nil then
            local row = permits.row(bucket)
            if not (row[BUCKET_HAS_WAITING] and row[BUCKET_NEEDS]) then
                return false
            end
            local priority, member, need = permits.first_parked(bucket)
            first = priority and {priority = priority, member = member, need = need} or false
            first_waiting[bucket] = first
        end
        return first
    end

    local function goes_before(one, other)
        return one.priority < other.priority or (one.priority == other.priority and one.member < other.member)
    end

    -- A line has to wait at a bucket for so much, which it can ever have.
    local function note_waiting(one, bucket, need)
        local first = waiting_at(bucket)
        if need <= permits.largest(bucket) and (not first or goes_before(one, first)) then
            first_waiting[bucket] = {priority = one.priority, member = one.member, need = need}
        end
    end

    -- Whether a line stands behind one that waits at a bucket and needs more than is free there: then it has to wait
    -- too, or small jobs would keep a big one waiting for ever.
    local function is_behind(one, bucket, free)
        local first = waiting_at(bucket)
        return first and first.need > free and goes_before(first, one)
    end

    -- How much of its bucket number n a line may take.
    local function room_of(one, n)
        local bucket = one.buckets[n]
        if one.parents[n] and not permits.row(bucket)[BUCKET_OVERRIDE] then
            return permits.free(bucket, true) - (on_way[bucket] or 0)
        end
        local room = rooms[bucket]
        if not room then
            room = permits.free(bucket)
            rooms[bucket] = room
        end
        return is_behind(one, bucket, room) and 0 or room
    end

    -- How many jobs the buckets of a line have room for if each costs 1, and whether other lines wait at one of them.
    local function room_for(one, most)
        local is_waited_for = false
        for n = 1, #one.buckets do
            local room = room_of(one, n)
            most = room < most and room or most
            is_waited_for = is_waited_for or waiting_at(one.buckets[n])
        end
        return most, is_waited_for
    end

    -- A job of a line takes its part of each bucket; or nothing, and this answers the bucket without room and what
    -- it would need there.
    local function take_part(one, costs)
        for n, bucket in ipairs(one.buckets) do
            local cost = costs and costs[n] or 1
            if room_of(one, n) < cost then
                return bucket, cost
            end
        end
        one.units = one.units or {}
        for n, bucket in ipairs(one.buckets) do
            local cost = costs and costs[n] or 1
            one.units[n] = (one.units[n] or 0) + cost
            rooms[bucket] = rooms[bucket] and rooms[bucket] - cost
            if one.parents[n] then
                on_way[bucket] = (on_way[bucket] or 0) + cost
            end
        end
    end

    -- The bucket of a line that never lets a job of these costs pass, and what it costs there, if there is one. A limit
    -- that lets nothing pass at all is shut: nobody costs too much there.
    local function barring(one, costs)
        for n, bucket in ipairs(one.buckets) do
            local cost, largest = costs[n] or 1, permits.largest(bucket)
            local is_way = one.parents[n] and not permits.row(bucket)[BUCKET_OVERRIDE]
            if cost > largest and largest > 0 and not is_way then
                return bucket, cost
            end
        end
    end

    -- The entry of a job in a line without costs, and its costs.
    local function without_costs(entry)
        local at = string.find(entry, ' ', SEQ_LENGTH + 1, true)
        if at then
            return string.sub(entry, 1, at - 1), permits.costs_of(string.sub(entry, at + 1))
        end
        return entry
    end

    -- The first jobs of a list cost 1 in each bucket, and nobody waits there: take them together. Answers how many.
    local function take_alike(one, jobs, most, picked)
        local count, last = 0, #picked
        while count < most and #jobs[count + 1] == ENTRY_LENGTH do
            count = count + 1
            picked[last + 2 * count - 1], picked[last + 2 * count] = jobs[count], one.priority
        end
        one.alike = one.alike + count
        for n = 1, #one.buckets do
            local bucket = one.buckets[n]
            rooms[bucket] = rooms[bucket] and rooms[bucket] - count
        end
        return count
    end

    -- Add the next jobs of a line to `picked`: member, priority, member, … Returns how many. One job more is
    -- read: it tells whether the line is empty now. A line that is not, and that met a full bucket, will be
    -- parked there.
    local function serve(one, most, picked)
        local room, is_waited_for = room_for(one, most)
        local jobs = redis.call('ZRANGE', one.jobs, one.taken, one.taken + room)
        if not one.is_admitted then
            one.is_admitted = true
            admitted[#admitted + 1] = one
        end
        local count = is_waited_for and 0 or take_alike(one, jobs, math.min(#jobs, room), picked)
        local seen, full, need = count, nil, nil
        while not full and seen < math.min(#jobs, most) do
            local member, costs = without_costs(jobs[seen + 1])
            full, need = nil, nil
            if costs then
                full, need = barring(one, costs)
            end
            if full and not permits.is_aside(one.line) then
                asides[#asides + 1] = {line = one, entry = jobs[seen + 1]}
                full, seen = nil, seen + 1
            else
                if not full then
                    full, need = take_part(one, costs)
                end
                if full then
                    note_waiting(one, full, need)
                else
                    count, seen = count + 1, seen + 1
                    picked[#picked + 1], picked[#picked + 2] = member, one.priority
                end
            end
        end
        one.is_empty = seen == #jobs and #jobs <= room
        if full then
            one.parked_at, one.need = full, need
        end
        one.taken, one.given = one.taken + seen, one.given + count
        return count
    end

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
            if one and (not first or goes_before(one, first)) then
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
                    local count = serve(one, math.min(size, most - given), picked)
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
                local of_queue = list_of(least, one.set.queue)
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
            local members = list_of(gone, one.set.key)
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
        each_of('ZREM', gone)
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
                local members = list_of(coming, at and partition .. ':parked:' .. at or one.set.key)
                members[#members + 1] = at and permits.park(at, one.priority, one.need) or one.priority
                members[#members + 1] = turn .. one.line
                places[#places + 1] = one.line
                places[#places + 1] = at and permits.parked_place(turn, one.need, at) or permits.open_place(turn)
            end
        end
        each_of('ZADD', coming)
        each('HSET', partition .. ':lines', places)
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

    -- The priorities of open lines, and at each of them sets that are read from there on.
    local function sources_by_priority(queue)
        local found = {}
        for _, source in ipairs(sources_of(queue)) do
            local first = redis.call('ZRANGE', source.key, 0, 0, 'WITHSCORES')
            while first[2] do
                local at = list_of(found, first[2])
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
        if serve(one, 1, picked) > 0 then
            go_on(one, 1, {})
        end
        return picked
    end
end
