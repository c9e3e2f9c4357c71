-- Counts errors by their fingerprints. A fingerprint is written once for a call, whatever the number
-- of its errors. Samples lie apart from the rows: they are long, and change once a minute.
local failing = {} -- fingerprint → times, task, job and packed error; of several errors the last

local function note_failure(fingerprint, task, id, packed_error)
    if fingerprint then
        local before = failing[fingerprint]
        failing[fingerprint] = {(before and before[1] or 0) + 1, task, id, packed_error}
    end
end

local function new_failure(task, packed_error)
    local row = {}
    row[FAILURE_TASK], row[FAILURE_KIND] = task, cmsgpack.unpack(packed_error)[ERROR_KIND]
    row[FAILURE_TIMES], row[FAILURE_FIRST_AT], row[FAILURE_LAST_AT] = 0, moment, 0
    row[FAILURE_SAMPLED_AT], row[FAILURE_MUTED_UNTIL], row[FAILURE_NOTE] = 0, false, false
    return row
end

local function write_failures()
    for fingerprint, one in pairs(failing) do
        local times, task, id, packed_error = unpack(one)
        local found = redis.call('HGET', partition .. ':failures', fingerprint)
        local row = found and cmsgpack.unpack(found) or new_failure(task, packed_error)
        row[FAILURE_TIMES] = row[FAILURE_TIMES] + times
        row[FAILURE_LAST_AT] = math.max(row[FAILURE_LAST_AT], moment)
        if row[FAILURE_SAMPLED_AT] < moment - SAMPLE_SECONDS * 1000000 then
            row[FAILURE_SAMPLED_AT] = moment
            local sample = cmsgpack.pack(moment) .. cmsgpack.pack(id) .. packed_error
            redis.call('HSET', partition .. ':failure_samples', fingerprint, sample)
        end
        redis.call('HSET', partition .. ':failures', fingerprint, cmsgpack.pack(row))
        redis.call('ZADD', partition .. ':failures_seen', row[FAILURE_LAST_AT], fingerprint)
    end
end
