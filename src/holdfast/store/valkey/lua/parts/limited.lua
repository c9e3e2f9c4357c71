-- Jobs with limits: the lines that they stand in while they are ready, and what they give back when they no
-- longer run. Noted job by job, and written by `flush`.
-- uses: names parking
-- fills: permits
do
    local kinds = permits.kinds
    local LINE_BATCH, MOST_WOKEN = 1000, 1000
    -- `unsettled`: line → whether its first job may be another one; `weights`: line → that of its newest job
    -- `freed`: bucket → units; `books`: bucket → what else is settled of one that does not only count
    local lines, unsettled, weights, freed, books = {}, {}, {}, {}, {}
    local NONE = {}
    local settles, reported = 'refund', nil -- how the attempt ends that is moved now, and what it has spent

    -- The name of a line of jobs with limits, from that of their queue and task.
    function permits.line_name(name, priority, text)
        return name .. '\n' .. priority .. '\n' .. text
    end

    function permits.line_of(record)
        return permits.line_name(line(record[QUEUE], record[TASK]), record[PRIORITY], record[BUCKETS])
    end

    -- Note that jobs come to the end of a line. If they leave it, or come to a place before others, whoever is first
    -- then may be able to begin where the line waits now.
    function permits.join(name, at_end, weight)
        if unsettled[name] == nil then
            lines[#lines + 1] = name
        end
        unsettled[name] = unsettled[name] or not at_end
        weights[name] = weight or weights[name]
    end

    -- The set and the entry of a ready job in its line, which it comes to or leaves.
    function permits.stand(id, record, enters)
        local name = permits.line_of(record)
        local is_new = string.sub(record[SEQ], 1, 13) >= string.format('%013x', server_time)
        permits.join(name, enters and is_new, enters and record[WEIGHT])
        return behind('limited', name), record[SEQ] .. id .. (record[COSTS] and ' ' .. record[COSTS] or '')
    end

    -- Whether a claim would find the line of a ready job.
    function permits.has_line(record)
        local name = permits.line_of(record)
        local place = redis.call('HGET', partition .. ':lines', name)
        if not place then
            return false
        end
        local turn, _, bucket = permits.place(place)
        if bucket then
            return redis.call('ZSCORE', partition .. ':parked:' .. bucket, turn .. name) and true or false
        end
        local queue, group = permits.group_of(name)
        return redis.call('SISMEMBER', partition .. ':groups:' .. queue, group) == 1
            and redis.call('ZSCORE', permits.open_set(queue, group), turn .. name) and true or false
    end

    -- The bucket of this limit that a job passes; the bucket without a key if it does not pass the limit.
    function permits.bucket_of(record, limit)
        local found = limit .. ':'
        for _, bucket in ipairs((permits.buckets_of(record[BUCKETS] or ''))) do
            found = permits.limit_of(bucket) == limit and bucket or found
        end
        return found
    end

    -- The next attempts that end do so in this way (`Settles`), and have spent so much: limit, units, …
    function permits.ends(how, spent)
        settles, reported = how, spent
    end

    -- What an attempt has spent of a limit, if it has said so: at its end, or before.
    local function spent_of(record, limit)
        for _, list in ipairs({reported or {}, record[SPENT] or {}}) do
            for n = 1, #list, 2 do
                if list[n] == limit then
                    return list[n + 1]
                end
            end
        end
    end

    local function settle_budget(one, record, bucket, cost)
        local spent = settles ~= 'unbegun' and spent_of(record, permits.limit_of(bucket))
        if spent then
            one.spent = one.spent + spent
        elseif settles == 'estimate' then
            one.spent = one.spent + cost
        elseif settles == 'charge' then
            one.charged = one.charged + cost
        end
    end

    -- So many units of a bucket are given back. Answers its books, if it keeps some.
    local function free(bucket, units)
        local before = freed[bucket]
        if not before and permits.keeps_books(bucket) then
            local rule = permits.rule(bucket)
            local is_budget = rule and kinds.settings(rule[RULE_SETTINGS]).kind == 'budget'
            books[bucket] = {spent = 0, charged = 0, unbegun = NONE, is_parent = true, is_budget = is_budget}
        end
        freed[bucket] = (before or 0) + units
        return books[bucket]
    end

    local function settle_in(one, record, bucket, cost, is_parent)
        one.is_parent = one.is_parent and is_parent
        if one.is_budget then
            settle_budget(one, record, bucket, cost)
        elseif settles == 'unbegun' then
            one.unbegun = one.unbegun == NONE and {} or one.unbegun
            table.insert(one.unbegun, {cost, record[CLAIMED_AT]})
        end
    end

    -- Note what the lease of a job has counted: how many units a bucket counts less, what a budget has spent and what
    -- it may charge, and what has not begun. A job that only the total of its queue has counted is plain again.
    function permits.give_back(record)
        local costs = record[COSTS] and permits.costs_of(record[COSTS])
        local buckets, parents = permits.buckets_of(record[BUCKETS] or '')
        for n = 1, #buckets do
            local bucket, cost = buckets[n], costs and costs[n] or 1
            local one = free(bucket, cost)
            if one then
                settle_in(one, record, bucket, cost, parents[n])
            end
        end
        if record[TOTAL] then
            free(record[TOTAL], 1)
            record[TOTAL] = false
            if not record[BUCKETS] then
                record[TIES] = bit.band(record[TIES], bit.bnot(TIE_PERMITS))
            end
        end
        if record[SPENT] then
            record[SPENT] = false
        end
    end

    -- Forget what stands beside lines that are gone.
    function permits.forget_lines(names)
        redis.call('HDEL', partition .. ':lines', unpack(names))
        if redis.call('EXISTS', partition .. ':weights') == 1 then
            redis.call('HDEL', partition .. ':weights', unpack(names))
        end
    end

    -- A set of open lines may be empty now.
    function permits.forget_empty_group(queue, group)
        if redis.call('EXISTS', permits.open_set(queue, group)) == 0 then
            redis.call('SREM', partition .. ':groups:' .. queue, group)
        end
    end

    local function close(name, place)
        local turn, _, bucket = permits.place(place)
        if bucket then
            redis.call('ZREM', partition .. ':parked:' .. bucket, turn .. name)
            permits.regroup(bucket)
        else
            local queue, group = permits.group_of(name)
            redis.call('ZREM', permits.open_set(queue, group), turn .. name)
            permits.forget_empty_group(queue, group)
        end
        permits.leave_kin(name)
        permits.forget_lines({name})
    end

    -- Let a line go on that was parked before its first job was another one.
    local function unpark(name, place)
        local turn, _, bucket = permits.place(place)
        if bucket then
            local queue, group = permits.group_of(name)
            local _, _, priority = permits.parts_of_line(name)
            redis.call('ZREM', partition .. ':parked:' .. bucket, turn .. name)
            redis.call('ZADD', permits.open_set(queue, group), priority, turn .. name)
            redis.call('SADD', partition .. ':groups:' .. queue, group)
            redis.call('HSET', partition .. ':lines', name, permits.open_place(turn))
            permits.regroup(bucket)
            return queue
        end
    end

    -- A new line has its turn as soon as those that are there.
    local function open(names)
        local turn_text, places, sets = permits.turn_texts(#names), {}, {}
        for _, name in ipairs(names) do
            local queue, task, priority, text = permits.parts_of_line(name)
            local group = permits.group_in(task, text)
            local set, fair = permits.open_set(queue, group), permits.fair_of(text)
            local turn, one = turn_text(permits.last_turn(queue, priority)), sets[set]
            if not one then
                one = {queue = queue, group = group, members = {}}
                sets[set] = one
            end
            places[#places + 1], places[#places + 2] = name, permits.open_place(turn)
            one.members[#one.members + 1], one.members[#one.members + 2] = priority, turn .. name
            if fair then
                redis.call('SADD', permits.kin_set(queue, priority, fair), name)
            end
        end
        if #names > 0 then
            redis.call('HSET', partition .. ':lines', unpack(places))
        end
        for set, one in pairs(sets) do
            redis.call('ZADD', set, unpack(one.members))
            redis.call('SADD', partition .. ':groups:' .. one.queue, one.group)
        end
    end

    local function note_woken(woken, queue)
        if queue then
            woken[queue] = (woken[queue] or 0) + 1
        end
    end

    local function write_lines(names, woken)
        local places, new = redis.call('HMGET', partition .. ':lines', unpack(names)), {}
        for n, name in ipairs(names) do
            local place = places[n]
            if unsettled[name] and redis.call('EXISTS', partition .. ':limited:' .. name) == 0 then
                if place then
                    close(name, place)
                end
            elseif not place then
                new[#new + 1] = name
            elseif unsettled[name] then
                note_woken(woken, unpark(name, place))
            end
        end
        open(new)
    end

    -- A line has the weight of the job that came last. A weight of 1 is not kept.
    local function write_weights()
        local heavy, usual = {}, {}
        for name, weight in pairs(weights) do
            if weight ~= 1 then
                heavy[#heavy + 1], heavy[#heavy + 2] = name, weight
            else
                usual[#usual + 1] = name
            end
        end
        local key = partition .. ':weights'
        if #usual > 0 and redis.call('EXISTS', key) == 1 then
            for first = 1, #usual, LINE_BATCH do
                redis.call('HDEL', key, unpack(usual, first, math.min(first + LINE_BATCH - 1, #usual)))
            end
        end
        for first = 1, #heavy, 2 * LINE_BATCH do
            redis.call('HSET', key, unpack(heavy, first, math.min(first + 2 * LINE_BATCH - 1, #heavy)))
        end
    end

    local function settle_books(row, bucket, one)
        local settings = permits.settings(bucket)
        if settings and settings.kind == 'budget' then
            local charged = settings.on_failure == 'charge' and one.charged or 0
            kinds.spend(row, settings, one.spent + charged, one.is_parent)
        elseif settings then
            for _, back in ipairs(one.unbegun) do
                kinds.untake(row, settings, back[1], back[2])
            end
        end
    end

    -- A bucket counts so many units less. Note the queues of as many lines that are parked there. Jobs without limits
    -- wait for a total without being parked there.
    local function settle(bucket, units, woken)
        local is_full_total = string.sub(bucket, 1, #TOTALS + 1) == TOTALS .. ':' and permits.free(bucket) == 0
        local row = permits.count(bucket, -units)
        if row and books[bucket] then
            settle_books(row, bucket, books[bucket])
        end
        if row and row[BUCKET_HAS_WAITING] then
            local last = math.min(units, MOST_WOKEN) - 1
            for _, member in ipairs(redis.call('ZRANGE', partition .. ':parked:' .. bucket, 0, last)) do
                note_woken(woken, (permits.parts_of_line(string.sub(member, TURN_LENGTH + 1))))
            end
        end
        if is_full_total then
            note_woken(woken, string.sub(bucket, #TOTALS + 2))
        end
    end

    -- Answers the queues of lines that may go on, and how many lines: of each bucket, as many as it counts units
    -- less.
    function permits.write()
        local woken, buckets = {}, {}
        for first = 1, #lines, LINE_BATCH do
            write_lines({unpack(lines, first, math.min(first + LINE_BATCH - 1, #lines))}, woken)
        end
        if #lines > 0 then
            write_weights()
        end
        for bucket in pairs(freed) do
            buckets[#buckets + 1] = bucket
        end
        permits.load(buckets)
        for bucket, units in pairs(freed) do
            settle(bucket, units, woken)
        end
        permits.save()
        lines, unsettled, weights, freed, books = {}, {}, {}, {}, {}
        return woken
    end
end
