-- The rows of buckets, each read once, and the lines that are parked at them.
--
-- `lines` says of each line where it is: 'o' for open or 'p' for parked, its turn, and the bucket it is
-- parked at. An open line stands in `open:<queue>`, a parked one in `parked:<bucket>`: by priority, then
-- turn. A bucket at which lines are parked, and that time will open, stands in `opening`.
local permits = {}

do
    local ROOMY = 2147483647
    local rows, rules, was_waiting = {}, {}, {}

    function permits.limit_of(bucket)
        return string.sub(bucket, 1, string.find(bucket, ':', 1, true) - 1)
    end

    -- The definition of a bucket's limit; false if there is none.
    function permits.rule(bucket)
        local limit = permits.limit_of(bucket)
        if rules[limit] == nil then
            local found = redis.call('HGET', partition .. ':limits', limit)
            rules[limit] = found and cmsgpack.unpack(found) or false
        end
        return rules[limit]
    end

    function permits.remember_rule(limit, rule)
        rules[limit] = rule
    end

    function permits.row(bucket)
        local row = rows[bucket]
        if not row then
            local found = redis.call('HGET', partition .. ':buckets', bucket)
            row = found and cmsgpack.unpack(found)
            if not row then
                row = {}
                row[BUCKET_IN_USE], row[BUCKET_OVERRIDE], row[BUCKET_SHUT_UNTIL] = 0, false, false
                row[BUCKET_THROTTLES], row[BUCKET_HAS_WAITING], row[BUCKET_TOUCHED_AT] = 0, false, 0
            end
            rows[bucket], was_waiting[bucket] = row, row[BUCKET_HAS_WAITING]
        end
        return row
    end

    local function is_shut(row)
        return row[BUCKET_SHUT_UNTIL] and row[BUCKET_SHUT_UNTIL] > moment
    end

    -- How many more jobs may begin (`holdfast.limits.admission`).
    function permits.room(bucket)
        local row, rule = permits.row(bucket), permits.rule(bucket)
        if rule and rule[RULE_RETIRED] then
            return ROOMY
        elseif not rule or is_shut(row) then
            return 0
        end
        local settings = cjson.decode(row[BUCKET_OVERRIDE] or rule[RULE_SETTINGS])
        return math.max(0, settings.most - row[BUCKET_IN_USE])
    end

    -- When to look at the bucket again; nil where time alone does not open it.
    function permits.opening(bucket)
        local row = permits.row(bucket)
        if permits.room(bucket) > 0 then
            return moment
        end
        return permits.rule(bucket) and is_shut(row) and row[BUCKET_SHUT_UNTIL] or nil
    end

    function permits.keep(bucket)
        local row = permits.row(bucket)
        if row[BUCKET_HAS_WAITING] or was_waiting[bucket] then
            local at = row[BUCKET_HAS_WAITING] and permits.opening(bucket)
            if at then
                redis.call('ZADD', partition .. ':opening', at, bucket)
            else
                redis.call('ZREM', partition .. ':opening', bucket)
            end
        end
        if row[BUCKET_TOUCHED_AT] == 0 then
            redis.call('ZADD', partition .. ':bucket_names', 0, bucket)
        end
        row[BUCKET_TOUCHED_AT] = moment
        redis.call('HSET', partition .. ':buckets', bucket, cmsgpack.pack(row))
    end

    -- The queue, the task, the priority and the buckets of a line, from its name.
    function permits.parts_of_line(name)
        local size, rest = string.match(name, '^(%d+):(.*)$')
        local queue = string.sub(rest, 1, size)
        local task, priority, buckets = string.match(string.sub(rest, size + 2), '^([^\n]*)\n([^\n]*)\n(.*)$')
        return queue, task, priority, buckets
    end

    function permits.next_turn()
        return string.format('%0' .. TURN_LENGTH .. '.0f', redis.call('INCR', partition .. ':turn'))
    end
end
