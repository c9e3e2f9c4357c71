-- Picking jobs with limits: of a line so many, as all its buckets have room for. Nothing is written before
-- `take_admitted` (admitted.lua); picking may be begun again. Whose turn it is among lines says turns.lua.
-- uses: lines limited queues
local begin_admission, total_room, count_in_total, total_of
local open_line, serve_line, is_over, line_goes_before, without_costs
-- The lines that were served; bucket → jobs without limits that its total counts; lines of a key of fairness → what is
-- added to their turns; queue → whether it has lines left; jobs that shall stand aside.
local admitted, in_totals, of_kin, unfinished, asides

do
    local rooms, known_lines, first_waiting, on_way

    function begin_admission()
        admitted, rooms, known_lines, first_waiting, in_totals, of_kin, unfinished = {}, {}, {}, {}, {}, {}, {}
        asides, on_way = {}, {}
    end

    -- The bucket of a queue that has a total; nil for any other.
    function total_of(queue)
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
    function open_line(source, member, priority)
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

    -- Whether a bucket only leads to another one of a line.
    local function is_way(one, n)
        return one.parents[n] and not permits.row(one.buckets[n])[BUCKET_OVERRIDE]
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

    function line_goes_before(one, other)
        return one.priority < other.priority or (one.priority == other.priority and one.member < other.member)
    end

    -- A line has to wait at a bucket for so much, which it can ever have.
    local function note_waiting(one, bucket, need)
        local first = waiting_at(bucket)
        if need <= permits.largest(bucket) and (not first or line_goes_before(one, first)) then
            first_waiting[bucket] = {priority = one.priority, member = one.member, need = need}
        end
    end

    -- Whether a line stands behind one that waits at a bucket and needs more than is free there: then it has to wait
    -- too, or small jobs would keep a big one waiting for ever.
    local function is_behind(one, bucket, free)
        local first = waiting_at(bucket)
        return first and first.need > free and line_goes_before(first, one)
    end

    -- How much of its bucket number n a line may take.
    local function room_of(one, n)
        local bucket = one.buckets[n]
        if is_way(one, n) then
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
    -- it would need there. Where a bucket only leads to another, the job waits for the end of a drain, and needs nothing.
    local function take_part(one, costs)
        for n, bucket in ipairs(one.buckets) do
            local cost = costs and costs[n] or 1
            if room_of(one, n) < cost then
                return bucket, is_way(one, n) and permits.rule(bucket) and 0 or cost
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
            if cost > largest and largest > 0 and not is_way(one, n) then
                return bucket, cost
            end
        end
    end

    -- The entry of a job in a line without costs, and its costs.
    function without_costs(entry)
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
    function serve_line(one, most, picked)
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
end
