-- The rows of buckets, each read once, and written together by `permits.save`.
--
-- `lines` says of each line where it is (`permits.place`). An open line stands in `open:<queue>`, a parked one in
-- `parked:<bucket>`: by priority, then turn. A line whose first job can never pass the bucket stands behind all
-- others. A bucket at which lines are parked, and that time will open, stands in `opening`.
-- uses: kinds
do
    local kinds = permits.kinds
    local BUCKET_BATCH = 2000
    local NEVER = 1000000000000 -- added to the priority of a line whose first job never passes
    local rows, rules, was_waiting, unsaved, regrouped = {}, {}, {}, {}, {}

    function permits.limit_of(bucket)
        return string.sub(bucket, 1, string.find(bucket, ':', 1, true) - 1)
    end

    -- The bucket that counts the running jobs of a queue, and the limit that its settings define. Without a total it
    -- holds nothing up.
    function permits.total_of(queue)
        return TOTALS .. ':' .. queue
    end

    -- The lease of a job counts in the total of its queue.
    function permits.count_in_receipt(record)
        for n = PLAN, LAST_SPREAD do
            record[n] = record[n] or false
        end
        record[TOTAL], record[LAST_SPREAD] = permits.total_of(record[QUEUE]), record[SPREAD]
        record[TIES] = bit.bor(record[TIES], TIE_PERMITS)
    end

    local function rule_of_total(bucket)
        if rules[bucket] == nil then
            local found = redis.call('HGET', partition .. ':queues', string.sub(bucket, #TOTALS + 2))
            local most = found and cmsgpack.unpack(found)[QUEUE_SETTINGS].max_running
            local rule = {}
            rule[RULE_SETTINGS] = '{"kind":"concurrency","most":' .. string.format('%.0f', most or 0) .. '}'
            rule[RULE_EDITED], rule[RULE_RETIRED], rule[RULE_REVISION] = true, not most, 0
            rules[bucket] = rule
        end
        return rules[bucket]
    end

    -- The definition of a bucket's limit; false if there is none.
    function permits.rule(bucket)
        local limit = permits.limit_of(bucket)
        if limit == TOTALS then
            return rule_of_total(bucket)
        end
        if rules[limit] == nil then
            local found = redis.call('HGET', partition .. ':limits', limit)
            rules[limit] = found and cmsgpack.unpack(found) or false
        end
        return rules[limit]
    end

    function permits.remember_rule(limit, rule)
        rules[limit] = rule
    end

    local function new_row()
        local row = {}
        row[BUCKET_IN_USE], row[BUCKET_OVERRIDE], row[BUCKET_SHUT_UNTIL] = 0, false, false
        row[BUCKET_THROTTLES], row[BUCKET_HAS_WAITING], row[BUCKET_TOUCHED_AT] = 0, false, 0
        row[BUCKET_NEEDS], row[BUCKET_SPENT], row[BUCKET_SINCE] = false, 0, 0
        row[BUCKET_SCALE], row[BUCKET_ALARMS], row[BUCKET_SLICES] = 0, 0, false
        return row
    end

    local function remember_row(bucket, found)
        local row = found and cmsgpack.unpack(found) or new_row()
        rows[bucket], was_waiting[bucket] = row, row[BUCKET_HAS_WAITING]
    end

    -- Read the rows of many buckets at once.
    function permits.load(buckets)
        local unread, asked = {}, {}
        for _, bucket in ipairs(buckets) do
            if not rows[bucket] and not asked[bucket] then
                unread[#unread + 1], asked[bucket] = bucket, true
            end
        end
        for first = 1, #unread, BUCKET_BATCH do
            local last = math.min(first + BUCKET_BATCH - 1, #unread)
            local found = redis.call('HMGET', partition .. ':buckets', unpack(unread, first, last))
            for n = first, last do
                remember_row(unread[n], found[n - first + 1])
            end
        end
    end

    function permits.row(bucket)
        if not rows[bucket] then
            remember_row(bucket, redis.call('HGET', partition .. ':buckets', bucket))
        end
        return rows[bucket]
    end

    -- The row of a bucket that will be saved.
    function permits.change(bucket)
        unsaved[bucket] = true
        return permits.row(bucket)
    end

    -- The settings that count for a bucket; nil if its limit is retired or not defined.
    function permits.settings(bucket)
        local row, rule = permits.row(bucket), permits.rule(bucket)
        if rule and not rule[RULE_RETIRED] then
            return kinds.settings(row[BUCKET_OVERRIDE] or rule[RULE_SETTINGS])
        end
    end

    function permits.is_retired(bucket)
        local rule = permits.rule(bucket)
        return rule and rule[RULE_RETIRED]
    end

    function permits.largest(bucket)
        local settings = permits.settings(bucket)
        return settings and settings.largest or ROOMY
    end

    local function is_shut(row)
        return row[BUCKET_SHUT_UNTIL] and row[BUCKET_SHUT_UNTIL] > moment
    end

    -- How much is free. A bucket that leads to another one of the job holds nothing up unless it has settings of its
    -- own.
    function permits.free(bucket, is_parent)
        local row, settings = permits.row(bucket), permits.settings(bucket)
        if permits.is_retired(bucket) then
            return ROOMY - row[BUCKET_IN_USE] -- so that what is in use stays a whole number
        end
        if not settings or is_shut(row) then
            return 0
        elseif is_parent and not row[BUCKET_OVERRIDE] then
            return ROOMY - row[BUCKET_IN_USE]
        end
        return math.max(0, kinds.left(row, settings))
    end

    -- When so much is free; nil where time alone does not bring it.
    function permits.opens_at(bucket, cost)
        if permits.free(bucket) >= cost then
            return moment
        end
        local row, settings = permits.row(bucket), permits.settings(bucket)
        local opens = settings and kinds.opens_at(row, settings, cost)
        return opens and math.max(opens, row[BUCKET_SHUT_UNTIL] or 0)
    end

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

    -- Note that the lines which are parked at a bucket have changed.
    function permits.regroup(bucket)
        regrouped[bucket], unsaved[bucket] = true, true
        permits.row(bucket)
    end

    -- Whether a line is one of jobs that stand aside, because they cost more than a bucket ever lets pass. All of them
    -- cost the same: the name of the line ends with it.
    function permits.is_aside(name)
        return string.find(name, '\n!', 1, true) ~= nil
    end

    function permits.aside(name, costs)
        return name .. '\n!' .. costs
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
        local count, largest = math.max(1, math.min(free, most)), permits.largest(bucket)
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

    local function look_at_waiting(bucket, row)
        local _, _, need = permits.first_parked(bucket)
        row[BUCKET_NEEDS] = need or false
        row[BUCKET_HAS_WAITING] = need ~= nil or redis.call('EXISTS', partition .. ':parked:' .. bucket) == 1
    end

    local function each(command, key, list)
        for first = 1, #list, BUCKET_BATCH do
            redis.call(command, key, unpack(list, first, math.min(first + BUCKET_BATCH - 1, #list)))
        end
    end

    -- Tell whoever watches over budgets.
    local function ring(names)
        each('ZADD', partition .. ':alarmed', names)
        redis.call('PUBLISH', partition:gsub(':%d+}$', '}') .. ':wake', 'limits')
    end

    -- Write the rows that have changed.
    function permits.save()
        local pieces, names, shut, opening, rings = {}, {}, {}, {}, {}
        for bucket in pairs(unsaved) do
            local row = rows[bucket]
            if regrouped[bucket] then
                look_at_waiting(bucket, row)
            end
            if row[BUCKET_HAS_WAITING] or was_waiting[bucket] then
                local need = row[BUCKET_HAS_WAITING] and row[BUCKET_NEEDS]
                local at = need and permits.opens_at(bucket, need)
                if at then
                    opening[#opening + 1], opening[#opening + 2] = string.format('%.0f', at), bucket
                else
                    shut[#shut + 1] = bucket
                end
                was_waiting[bucket] = row[BUCKET_HAS_WAITING]
            end
            if row[BUCKET_TOUCHED_AT] == 0 then
                names[#names + 1], names[#names + 2] = '0', bucket
            end
            if bit.band(row[BUCKET_ALARMS], ALARM_SOFT + ALARM_OVERRUN) ~= 0 then
                rings[#rings + 1], rings[#rings + 2] = '0', bucket
            end
            row[BUCKET_TOUCHED_AT] = moment
            pieces[#pieces + 1], pieces[#pieces + 2] = bucket, cmsgpack.pack(row)
        end
        each('ZREM', partition .. ':opening', shut)
        each('HSET', partition .. ':buckets', pieces)
        each('ZADD', partition .. ':opening', opening)
        each('ZADD', partition .. ':bucket_names', names)
        if #rings > 0 then
            ring(rings)
        end
        unsaved, regrouped = {}, {}
    end

    -- The turns of lines that were served last, by queue and priority, and a counter that orders equal turns.
    local turns = {}

    local function turns_of(queue, priority)
        return queue .. '\n' .. priority
    end

    -- The turn of the line that was served last in a queue, at a priority.
    function permits.last_turn(queue, priority)
        local name = turns_of(queue, priority)
        turns[name] = turns[name] or tonumber(redis.call('HGET', partition .. ':turns', name) or 0)
        return turns[name]
    end

    function permits.keep_last_turn(queue, priority, turn)
        local name = turns_of(queue, priority)
        turns[name] = turn
        redis.call('HSET', partition .. ':turns', name, string.format('%.0f', turn))
    end

    -- For so many lines: a function that makes text of a turn. Of equal turns the earlier one comes first.
    function permits.turn_texts(count)
        local number = count > 0 and redis.call('HINCRBY', partition .. ':turns', '', count) - count or 0
        return function(turn)
            number = number + 1
            return string.format('%018.0f%012.0f', turn, number)
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

    local buckets_in, parents_in = {}, {}

    -- The open lines of one queue, task and labels stand in one set, so that a claim reads only those that its worker
    -- may serve: the queue, and the group. The group is the task and behind a line break the labels, each behind '+'.
    function permits.group_of(name)
        local queue, task, _, text = permits.parts_of_line(name)
        local labels = ''
        for label in string.gmatch(string.find(text, '+', 1, true) and text or '', '[^\n]+') do
            labels = string.byte(label) == 43 and labels .. label or labels
        end
        return queue, task .. '\n' .. labels
    end

    function permits.open_set(queue, group)
        return partition .. ':open:' .. queue .. '\n' .. group
    end

    -- The key of fairness in the text of a line, if it has one.
    function permits.fair_of(text)
        return string.match(text, '^=([^\n]*)') or string.match(text, '\n=([^\n]*)')
    end

    -- The set of the lines of a queue and priority that have one key of fairness.
    function permits.kin_set(queue, priority, fair)
        return partition .. ':kin:' .. queue .. '\n' .. priority .. '\n' .. fair
    end

    -- The buckets of a line, from its text, and which of them lead to the next one by its path.
    function permits.buckets_of(text)
        local buckets, parents = buckets_in[text], parents_in[text]
        if buckets then
            return buckets, parents
        end
        buckets, parents = {}, {}
        buckets_in[text], parents_in[text] = buckets, parents
        for bucket in string.gmatch(text, '[^\n]+') do
            local before, first = buckets[#buckets], string.byte(bucket)
            if first ~= 43 and first ~= 61 and first ~= 33 then -- '+' a label, '=' a key of fairness, '!' costs
                parents[#buckets] = before and string.sub(bucket, 1, #before + 1) == before .. '/'
                buckets[#buckets + 1] = bucket
            end
        end
        return buckets, parents
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
