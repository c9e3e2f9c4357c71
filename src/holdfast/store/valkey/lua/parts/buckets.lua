-- The rows of buckets, each read once, and written together by `permits.save`.
--
-- Most buckets are those of a concurrency limit, which only count. Many of them have rows of the same text: rows of new
-- buckets, and rows that one script wrote. `permits.load` makes one table of all rows of a limit that are the same text.
-- It is shared, and nobody changes it: `permits.change` makes a copy, and `permits.count` notes how much a bucket
-- counts more. What has to be written then is made once for all buckets that shared a row and count as much more.
--
-- A bucket at which lines are parked (parking.lua), and that time will open, stands in `opening`.
-- uses: kinds record
-- fills: permits
do
    local kinds = permits.kinds
    local BUCKET_BATCH = 2000
    local rows, rules, was_waiting, unsaved, regrouped = {}, {}, {}, {}, {}
    -- `shared`: limit → text → row; `known_of`: such a row → how much is free there, and by units what follows when so
    -- many are counted more; `counted`: bucket → units
    local shared, known_of, counted = {}, {}, {}

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

    -- Whether a bucket has other books than how much of it is in use.
    function permits.keeps_books(bucket)
        local rule = permits.rule(bucket)
        return not rule or kinds.settings(rule[RULE_SETTINGS]).kind ~= 'concurrency'
    end

    local function new_row(found)
        return found and unpacked(found) or {NEW_BUCKET}
    end

    local function remember_row(bucket, row)
        rows[bucket] = row
        if row[BUCKET_HAS_WAITING] then
            was_waiting[bucket] = true
        end
    end

    -- A row that others may share: nobody waits there, and nobody has set an amount for it alone.
    local function shared_row(limit, found)
        local of_limit = shared[limit] or {}
        shared[limit] = of_limit
        local row = of_limit[found]
        if not row then
            row = new_row(found)
            of_limit[found] = row
            known_of[row] = not row[BUCKET_HAS_WAITING] and not row[BUCKET_OVERRIDE] and {} or nil
        end
        return known_of[row] and row
    end

    -- Read the rows of many buckets at once.
    function permits.load(buckets)
        local unread = {}
        for n = 1, #buckets do
            local bucket = buckets[n]
            if rows[bucket] == nil then
                unread[#unread + 1], rows[bucket] = bucket, false
            end
        end
        for first = 1, #unread, BUCKET_BATCH do
            local last = math.min(first + BUCKET_BATCH - 1, #unread)
            local found = redis.call('HMGET', partition .. ':buckets', unpack(unread, first, last))
            for n = first, last do
                local bucket, text = unread[n], found[n - first + 1]
                local limit = permits.limit_of(bucket)
                local row = limit ~= TOTALS and not permits.keeps_books(bucket) and shared_row(limit, text)
                if row then
                    rows[bucket] = row
                else
                    remember_row(bucket, new_row(text))
                end
            end
        end
    end

    local function read_row(bucket)
        if not rows[bucket] then
            remember_row(bucket, new_row(redis.call('HGET', partition .. ':buckets', bucket)))
        end
        return rows[bucket]
    end

    -- The row of a bucket that will be saved.
    function permits.change(bucket)
        local row = read_row(bucket)
        if known_of[row] then
            row = {unpack(row)}
            row[BUCKET_IN_USE] = row[BUCKET_IN_USE] + (counted[bucket] or 0)
            rows[bucket], counted[bucket] = row, nil
        end
        unsaved[bucket] = true
        return row
    end

    -- The row of a bucket, for those who only look at it.
    function permits.row(bucket)
        return counted[bucket] and permits.change(bucket) or read_row(bucket)
    end

    -- So many units of a bucket are in use more. Answers its row, unless it is one that only counts and at which nobody
    -- waits.
    function permits.count(bucket, units)
        if known_of[read_row(bucket)] then
            counted[bucket] = (counted[bucket] or 0) + units
            return nil
        end
        local row = permits.change(bucket)
        row[BUCKET_IN_USE] = row[BUCKET_IN_USE] + units
        return row
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
        return settings and kinds.largest(permits.row(bucket), settings) or ROOMY
    end

    local function is_shut(row)
        return row[BUCKET_SHUT_UNTIL] and row[BUCKET_SHUT_UNTIL] > moment
    end

    local function free_in(row, rule, is_parent)
        if rule and rule[RULE_RETIRED] then
            return ROOMY - row[BUCKET_IN_USE] -- so that what is in use stays a whole number
        end
        if not rule or is_shut(row) then
            return 0
        elseif is_parent and not row[BUCKET_OVERRIDE] then
            return ROOMY - row[BUCKET_IN_USE]
        end
        return math.max(0, kinds.left(row, kinds.settings(row[BUCKET_OVERRIDE] or rule[RULE_SETTINGS])))
    end

    -- How much is free. A bucket that leads to another one of the job holds nothing up unless it has settings of its
    -- own.
    function permits.free(bucket, is_parent)
        local row = permits.row(bucket)
        local known = known_of[row]
        if not known or is_parent then
            return free_in(row, permits.rule(bucket), is_parent)
        elseif not known.free then
            known.free = free_in(row, permits.rule(bucket))
        end
        return known.free
    end

    -- When so much is free; nil where time alone does not bring it.
    function permits.opens_at(bucket, cost)
        local row, settings = permits.row(bucket), permits.settings(bucket)
        if permits.free(bucket) >= cost and (cost > 0 or permits.is_retired(bucket) or not is_shut(row)) then
            return moment
        end
        local opens = settings and (cost == 0 and moment or kinds.opens_at(row, settings, cost))
        return opens and math.max(opens, row[BUCKET_SHUT_UNTIL] or 0)
    end

    -- Note that the lines which are parked at a bucket have changed.
    function permits.regroup(bucket)
        regrouped[bucket] = true
        permits.change(bucket)
    end

    function permits.each(command, key, list)
        for first = 1, #list, BUCKET_BATCH do
            redis.call(command, key, unpack(list, first, math.min(first + BUCKET_BATCH - 1, #list)))
        end
    end

    -- The same for many keys, each with its list.
    function permits.each_of(command, lists)
        for key, list in pairs(lists) do
            permits.each(command, key, list)
        end
    end

    -- The list of a key in a table of lists.
    function permits.list_of(lists, key)
        lists[key] = lists[key] or {}
        return lists[key]
    end

    -- Tell whoever watches over budgets.
    local function ring(names)
        permits.each('ZADD', partition .. ':alarmed', names)
        redis.call('PUBLISH', partition:gsub(':%d+}$', '}') .. ':wake', 'limits')
    end

    -- What follows when a shared row counts so many more: the row, which is shared too, and its text.
    local function counted_row(row, units)
        local next_rows = known_of[row]
        local found = next_rows[units]
        if not found then
            local counts = {unpack(row)}
            counts[BUCKET_IN_USE], counts[BUCKET_TOUCHED_AT] = counts[BUCKET_IN_USE] + units, moment
            found = {row = counts, text = cmsgpack.pack(counts)}
            next_rows[units], known_of[counts] = found, {}
        end
        return found
    end

    -- Write the rows of buckets that only count more or less than before.
    local function write_counted(pieces, names)
        for bucket, units in pairs(counted) do
            local row = rows[bucket]
            local found, last = counted_row(row, units), #pieces
            if row[BUCKET_TOUCHED_AT] == 0 then
                names[#names + 1], names[#names + 2] = '0', bucket
            end
            rows[bucket], pieces[last + 1], pieces[last + 2] = found.row, bucket, found.text
        end
    end

    -- Write the rows that have changed.
    function permits.save()
        local pieces, names, shut, opening, rings = {}, {}, {}, {}, {}
        write_counted(pieces, names)
        for bucket in pairs(unsaved) do
            local row = rows[bucket]
            if regrouped[bucket] then
                permits.look_at_waiting(bucket, row)
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
        permits.each('ZREM', partition .. ':opening', shut)
        permits.each('HSET', partition .. ':buckets', pieces)
        permits.each('ZADD', partition .. ':opening', opening)
        permits.each('ZADD', partition .. ':bucket_names', names)
        if #rings > 0 then
            ring(rings)
        end
        unsaved, regrouped, counted = {}, {}, {}
    end
end
