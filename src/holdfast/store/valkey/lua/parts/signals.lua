-- The signals of jobs: a hash for each job that was sent some, by their numbers.
-- uses: steps

-- All signals of a job: for each its number and its row, not in order.
local function signals_of(id)
    local fields, found = redis.call('HGETALL', signals_key(id)), {}
    for n = 1, #fields, 2 do
        found[#found + 1] = {tonumber(fields[n]), cmsgpack.unpack(fields[n + 1])}
    end
    return found
end

-- Whether a signal of this name waits to be taken.
local function is_kept(id, name)
    for _, one in ipairs(signals_of(id)) do
        if one[2][SIGNAL_NAME] == name and not one[2][SIGNAL_TAKEN_BY] then
            return true
        end
    end
    return false
end

local function is_awaited(id, name)
    return redis.call('ZSCORE', partition .. ':waits', id .. ' ' .. name)
end

-- Make a job ready that is suspended for this signal.
local function wake_for(id, record, name, seq, who)
    tell(id, seen(record), 'resumed', who, 'signal ' .. name)
    make_ready(id, record, 'resumed', seq)
end
