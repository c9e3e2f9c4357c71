-- Jobs with limits: the lines that they stand in while they are ready, and what they give back when they no
-- longer run. Noted job by job, and written by `flush`.
-- uses: names buckets
do
    local joined, freed = {}, {} -- lines that jobs came to or left; buckets, and how many jobs they count less

    local function line_of(record)
        return line(record[QUEUE], record[TASK]) .. '\n' .. record[PRIORITY] .. '\n' .. record[BUCKETS]
    end

    -- The set of the line that a ready job stands in.
    function permits.stand(record)
        local name = line_of(record)
        joined[name] = true
        return behind('limited', name)
    end

    -- Whether a claim would find the line of a ready job.
    function permits.has_line(record)
        return redis.call('HEXISTS', partition .. ':lines', line_of(record)) == 1
    end

    -- The bucket of this limit that a job passes; the bucket without a key if it does not pass the limit.
    function permits.bucket_of(record, limit)
        for bucket in string.gmatch(record[BUCKETS] or '', '[^\n]+') do
            if permits.limit_of(bucket) == limit then
                return bucket
            end
        end
        return limit .. ':'
    end

    function permits.give_back(record)
        for bucket in string.gmatch(record[BUCKETS], '[^\n]+') do
            freed[bucket] = (freed[bucket] or 0) + 1
        end
    end

    local function close(name, place)
        local turn, bucket = string.sub(place, 2, TURN_LENGTH + 1), string.sub(place, TURN_LENGTH + 2)
        local set = bucket ~= '' and 'parked:' .. bucket or 'open:' .. permits.parts_of_line(name)
        redis.call('ZREM', partition .. ':' .. set, turn .. name)
        redis.call('HDEL', partition .. ':lines', name)
        if bucket ~= '' and redis.call('EXISTS', partition .. ':' .. set) == 0 then
            permits.row(bucket)[BUCKET_HAS_WAITING] = false
            freed[bucket] = freed[bucket] or 0
        end
    end

    local function open(name)
        local queue, _, priority = permits.parts_of_line(name)
        local turn = permits.next_turn()
        redis.call('HSET', partition .. ':lines', name, 'o' .. turn)
        redis.call('ZADD', partition .. ':open:' .. queue, priority, turn .. name)
    end

    -- Answers the queues of lines that may go on: of each bucket, as many as it counts jobs less.
    function permits.write()
        local queues_woken = {}
        for name in pairs(joined) do
            local place = redis.call('HGET', partition .. ':lines', name)
            local is_empty = redis.call('EXISTS', partition .. ':limited:' .. name) == 0
            if is_empty and place then
                close(name, place)
            elseif not is_empty and not place then
                open(name)
            end
        end
        for bucket, jobs in pairs(freed) do
            local row = permits.row(bucket)
            row[BUCKET_IN_USE] = row[BUCKET_IN_USE] - jobs
            if row[BUCKET_HAS_WAITING] and jobs > 0 then
                for _, member in ipairs(redis.call('ZRANGE', partition .. ':parked:' .. bucket, 0, jobs - 1)) do
                    queues_woken[#queues_woken + 1] = permits.parts_of_line(string.sub(member, TURN_LENGTH + 1))
                end
            end
            permits.keep(bucket)
        end
        joined, freed = {}, {}
        return queues_woken
    end
end
