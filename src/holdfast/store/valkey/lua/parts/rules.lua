-- The definitions of limits, and letting claims look again at the buckets of one.
-- uses: parking
local read_rule, keep_rule, keep_calendars, kind_of, counts_something, look_again, let_go_on, buckets_behind

do
    local kinds = permits.kinds
    local MOST_WOKEN = 1000

    function read_rule(limit)
        return permits.rule(limit .. ':')
    end

    function kind_of(settings)
        return cjson.decode(settings).kind
    end

    -- The names of a limit's buckets. ';' stands right behind ':' in the order of bytes.
    function buckets_behind(limit, behind_which, count)
        local first = behind_which and '(' .. behind_which or '[' .. limit .. ':'
        return redis.call('ZRANGEBYLEX', partition .. ':bucket_names', first, '(' .. limit .. ';', 'LIMIT', 0, count)
    end

    function counts_something(limit)
        for _, bucket in ipairs(buckets_behind(limit, nil, -1)) do
            if permits.row(bucket)[BUCKET_IN_USE] ~= 0 then
                return true
            end
        end
        return false
    end

    local function wake_some(bucket, units)
        local channel, told = partition:gsub(':%d+}$', '}') .. ':wake', {}
        local last = math.min(units, MOST_WOKEN) - 1
        for _, member in ipairs(redis.call('ZRANGE', partition .. ':parked:' .. bucket, 0, last)) do
            local queue = permits.parts_of_line(string.sub(member, TURN_LENGTH + 1))
            if not told[queue] then
                told[queue] = true
                redis.call('PUBLISH', channel, 'ready:' .. queue)
            end
        end
    end

    -- Correct when a bucket is to be looked at, and wake who waits there if it has room.
    function look_again(bucket)
        if permits.row(bucket)[BUCKET_HAS_WAITING] then
            permits.reconsider(bucket)
            local row, free = permits.row(bucket), permits.free(bucket)
            if row[BUCKET_NEEDS] == 0 and permits.opens_at(bucket, 0) == moment then
                wake_some(bucket, MOST_WOKEN)
            elseif free > 0 then
                wake_some(bucket, free)
            end
        end
    end

    -- Let all lines go on that are parked at a bucket. Those that have to wait will be parked again.
    function let_go_on(bucket)
        local parked, queues = partition .. ':parked:' .. bucket, {}
        for _, member in ipairs(redis.call('ZRANGE', parked, 0, -1)) do
            local turn, name = string.sub(member, 1, TURN_LENGTH), string.sub(member, TURN_LENGTH + 1)
            local queue, group = permits.group_of(name)
            local _, _, priority = permits.parts_of_line(name)
            redis.call('ZADD', permits.open_set(queue, group), priority, member)
            redis.call('SADD', partition .. ':groups:' .. queue, group)
            redis.call('HSET', partition .. ':lines', name, permits.open_place(turn))
            queues[queue] = true
        end
        redis.call('UNLINK', parked)
        permits.regroup(bucket)
        for queue in pairs(queues) do
            redis.call('PUBLISH', partition:gsub(':%d+}$', '}') .. ':wake', 'ready:' .. queue)
        end
    end

    -- When the periods of calendars begin: the script cannot know time zones.
    function keep_calendars(calendars)
        if #calendars > 0 then
            redis.call('HSET', partition .. ':periods', unpack(calendars))
        end
    end

    -- The kind of a limit has changed: its buckets begin anew.
    local function forget_books(bucket)
        local row = permits.change(bucket)
        row[BUCKET_OVERRIDE], row[BUCKET_SCALE], row[BUCKET_SINCE] = false, 0, 0
        kinds.forget(row)
    end

    function keep_rule(limit, rule, is_other_kind)
        redis.call('HSET', partition .. ':limits', limit, cmsgpack.pack(rule))
        permits.remember_rule(limit, rule)
        local buckets = buckets_behind(limit, nil, -1)
        permits.load(buckets)
        for _, bucket in ipairs(buckets) do
            if is_other_kind then
                forget_books(bucket)
            end
            look_again(bucket)
        end
    end
end
