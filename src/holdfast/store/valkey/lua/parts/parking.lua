-- The lines of jobs with limits: their names, their turns, and where they are.
--
-- `lines` says of each line where it is (`permits.place`). An open line stands in `open:<queue>`, a parked one in
-- `parked:<bucket>`: by priority, then turn. A line whose first job can never pass the bucket stands behind all
-- others.
-- uses: buckets
-- fills: permits
do
    local NEVER = 1000000000000 -- added to the priority of a line whose first job never passes

    -- Where a line is: its turn, and if it is parked what its first job costs there, and the bucket. As text: 'o'
    -- or 'p', the turn, the cost, a space, the bucket.
    function permits.place(text)
        local turn = string.sub(text, 2, TURN_LENGTH + 1)
        if string.sub(text, 1, 1) == 'o' then
            return turn
        end
        local need, bucket = string.match(text, '^(%d+) (.*)$', TURN_LENGTH + 2)
        return turn, tonumber(need), bucket
    end

    function permits.open_place(turn)
        return 'o' .. turn
    end

    function permits.parked_place(turn, need, bucket)
        return 'p' .. turn .. string.format('%.0f ', need) .. bucket
    end

    -- Whether a line is one of jobs that stand aside, because they cost more than a bucket ever lets pass. All of them
    -- cost the same: the name of the line ends with it.
    function permits.is_aside(name)
        return string.find(name, '\n!', 1, true) ~= nil
    end

    function permits.aside(name, costs)
        return name .. '\n!' .. costs
    end

    -- The text of a line as it is for jobs that do not stand aside.
    function permits.not_aside(text)
        local at = string.find(text, '\n!', 1, true)
        return at and string.sub(text, 1, at - 1) or text
    end

    -- What a parked line needs to go on; nil if it stands aside, or if the limit lets nothing pass at all. A line whose
    -- first job cannot pass since the limit was lowered needs nothing: the claim that looks at it lets that job stand
    -- aside.
    local function need_of(name, need, largest)
        if need <= largest then
            return need
        end
        return largest > 0 and not permits.is_aside(name) and 0 or nil
    end

    -- The first line that is parked at a bucket and can ever pass: its priority, its entry, and what it needs.
    -- Lines that cannot, because the limit was lowered, go behind the others.
    function permits.first_parked(bucket)
        local parked, largest = partition .. ':parked:' .. bucket, permits.largest(bucket)
        while true do
            local first = redis.call('ZRANGE', parked, 0, 0, 'WITHSCORES')
            local priority = tonumber(first[2])
            if not priority or priority >= NEVER then
                return nil
            end
            local name = string.sub(first[1], TURN_LENGTH + 1)
            local _, need = permits.place(redis.call('HGET', partition .. ':lines', name))
            need = need_of(name, need, largest)
            if need then
                return priority, first[1], need
            end
            redis.call('ZADD', parked, priority + NEVER, first[1])
        end
    end

    -- A line is parked at a bucket, where its first job needs so much. Answers its score there.
    function permits.park(bucket, priority, need)
        local row = permits.change(bucket)
        local never_passes = need > permits.largest(bucket)
        if row[BUCKET_HAS_WAITING] then
            permits.regroup(bucket)
        else
            row[BUCKET_HAS_WAITING], row[BUCKET_NEEDS] = true, not never_passes and need
        end
        return never_passes and priority + NEVER or priority
    end

    -- Up to so many lines that are parked at a bucket, in their order, as far as there is room for the first job of
    -- each. They are about to leave it.
    function permits.parked_with_room(bucket, most)
        local row, free, going = permits.change(bucket), permits.free(bucket), {}
        local count, largest = most, permits.largest(bucket)
        if row[BUCKET_NEEDS] ~= 0 then
            count = math.max(1, math.min(free, most))
        end
        local found = redis.call('ZRANGE', partition .. ':parked:' .. bucket, 0, count - 1, 'WITHSCORES')
        for n = 1, #found, 2 do
            local member = found[n]
            local name = string.sub(member, TURN_LENGTH + 1)
            local turn, need = permits.place(redis.call('HGET', partition .. ':lines', name))
            local is_able = tonumber(found[n + 1]) < NEVER
            need = is_able and need_of(name, need, largest) or need
            free = free - need
            if free < 0 then
                row[BUCKET_NEEDS] = is_able and need
                return going
            end
            going[#going + 1] = {member = member, line = name, turn = turn, priority = found[n + 1]}
        end
        if #found == 2 * count then
            permits.regroup(bucket)
        else
            row[BUCKET_HAS_WAITING], row[BUCKET_NEEDS] = false, false
        end
        return going
    end

    -- The settings of a bucket have changed: those who could never pass may be able to now.
    function permits.reconsider(bucket)
        local parked = partition .. ':parked:' .. bucket
        local found = redis.call('ZRANGEBYSCORE', parked, NEVER - 1000000000, '+inf', 'WITHSCORES')
        local largest = permits.largest(bucket)
        for n = 1, #found, 2 do
            local name = string.sub(found[n], TURN_LENGTH + 1)
            local _, need = permits.place(redis.call('HGET', partition .. ':lines', name))
            if need_of(name, need, largest) then
                redis.call('ZADD', parked, tonumber(found[n + 1]) - NEVER, found[n])
            end
        end
        permits.regroup(bucket)
    end

    -- How many lines that are parked at a bucket can never pass. Where nothing passes at all, nobody costs too much.
    function permits.stuck(bucket)
        local is_shut_off = permits.largest(bucket) == 0
        return is_shut_off and 0
            or redis.call('ZCOUNT', partition .. ':parked:' .. bucket, NEVER - 1000000000, '+inf')
    end

    -- Correct what the row of a bucket says of those who are parked there.
    function permits.look_at_waiting(bucket, row)
        local _, _, need = permits.first_parked(bucket)
        row[BUCKET_NEEDS] = need or false
        row[BUCKET_HAS_WAITING] = need ~= nil or redis.call('EXISTS', partition .. ':parked:' .. bucket) == 1
    end

    -- The turns of lines that were served last, by queue and priority, and a counter that orders equal turns.
    local turns = {}

    -- The turn of the line that was served last in a queue, at a priority.
    function permits.last_turn(queue, priority)
        local of_queue = turns[queue]
        if not of_queue then
            of_queue = {}
            turns[queue] = of_queue
        end
        if not of_queue[priority] then
            local found = redis.call('HGET', partition .. ':turns', queue .. '\n' .. priority)
            of_queue[priority] = tonumber(found or 0)
        end
        return of_queue[priority]
    end

    function permits.keep_last_turn(queue, priority, turn)
        turns[queue] = nil
        redis.call('HSET', partition .. ':turns', queue .. '\n' .. priority, string.format('%.0f', turn))
    end

    -- For so many lines: a function that makes text of a turn. Of equal turns the earlier one comes first.
    function permits.turn_texts(count)
        local number = count > 0 and redis.call('HINCRBY', partition .. ':turns', '', count) - count or 0
        return function(turn)
            number = number + 1
            return string.format('%018d%012d', turn, number)
        end
    end

    function permits.turn_of(text)
        return tonumber(string.sub(text, 1, 18))
    end

    -- The queue, the task, the priority and the text of a line, from its name.
    function permits.parts_of_line(name)
        local colon = string.find(name, ':', 1, true)
        local last = colon + tonumber(string.sub(name, 1, colon - 1))
        local behind_task = string.find(name, '\n', last + 2, true)
        local behind_priority = string.find(name, '\n', behind_task + 1, true)
        return string.sub(name, colon + 1, last), string.sub(name, last + 2, behind_task - 1),
            string.sub(name, behind_task + 1, behind_priority - 1), string.sub(name, behind_priority + 1)
    end

    -- The open lines of one queue, task and labels stand in one set, so that a claim reads only those that its worker
    -- may serve: the group of lines of a task and text. It is the task and behind a line break the labels, each behind
    -- '+'.
    function permits.group_in(task, text)
        if not string.find(text, '+', 1, true) then
            return task .. '\n'
        end
        local labels = ''
        for label in string.gmatch(text, '[^\n]+') do
            labels = string.byte(label) == 43 and labels .. label or labels
        end
        return task .. '\n' .. labels
    end

    -- The queue and the group of a line.
    function permits.group_of(name)
        local queue, task, _, text = permits.parts_of_line(name)
        return queue, permits.group_in(task, text)
    end

    function permits.open_set(queue, group)
        return partition .. ':open:' .. queue .. '\n' .. group
    end

    -- The key of fairness in the text of a line, if it has one.
    function permits.fair_of(text)
        if not string.find(text, '=', 1, true) then
            return nil
        end
        return string.match(text, '^=([^\n]*)') or string.match(text, '\n=([^\n]*)')
    end

    -- The set of the lines of a queue and priority that have one key of fairness.
    function permits.kin_set(queue, priority, fair)
        return partition .. ':kin:' .. queue .. '\n' .. priority .. '\n' .. fair
    end

    -- A line is gone: it has no part in its key of fairness any more.
    function permits.leave_kin(name)
        local queue, _, priority, text = permits.parts_of_line(name)
        local fair = permits.fair_of(text)
        if fair then
            redis.call('SREM', permits.kin_set(queue, priority, fair), name)
        end
    end

    local NO_BUCKETS = {['+'] = true, ['='] = true, ['!'] = true} -- a label, a key of fairness, costs
    local NO_PARENTS = {}
    local buckets_in, parents_in = {}, {} -- by text

    local function part(text)
        local buckets, parents = {}, {}
        for bucket in string.gmatch(text, '[^\n]+') do
            local before = buckets[#buckets]
            if not NO_BUCKETS[string.sub(bucket, 1, 1)] then
                parents[#buckets] = before and string.sub(bucket, 1, #before + 1) == before .. '/'
                buckets[#buckets + 1] = bucket
            end
        end
        return buckets, parents
    end

    -- The buckets of a line, from its text, and which of them lead to the next one by its path. Most texts are one bucket.
    function permits.buckets_of(text)
        local buckets = buckets_in[text]
        if buckets then
            return buckets, parents_in[text] or NO_PARENTS
        end
        if text ~= '' and not string.find(text, '\n', 1, true) and not NO_BUCKETS[string.sub(text, 1, 1)] then
            buckets = {text}
        else
            buckets, parents_in[text] = part(text)
        end
        buckets_in[text] = buckets
        return buckets, parents_in[text] or NO_PARENTS
    end

    -- What a job costs in each of its buckets; nil if 1 in each.
    function permits.costs_of(text)
        if not text then
            return nil
        end
        local costs = {}
        for cost in string.gmatch(text, '%d+') do
            costs[#costs + 1] = tonumber(cost)
        end
        return costs
    end
end
