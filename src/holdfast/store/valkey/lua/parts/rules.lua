-- The definitions of limits, and letting claims look again at the buckets of one.
-- uses: buckets
local read_rule, keep_rule, kind_of, counts_something, look_again, buckets_behind

do
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

    local function wake_all(bucket)
        local channel, told = partition:gsub(':%d+}$', '}') .. ':wake', {}
        for _, member in ipairs(redis.call('ZRANGE', partition .. ':parked:' .. bucket, 0, -1)) do
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
            permits.keep(bucket)
            if permits.room(bucket) > 0 then
                wake_all(bucket)
            end
        end
    end

    function keep_rule(limit, rule)
        redis.call('HSET', partition .. ':limits', limit, cmsgpack.pack(rule))
        permits.remember_rule(limit, rule)
        for _, bucket in ipairs(buckets_behind(limit, nil, -1)) do
            look_again(bucket)
        end
    end
end
