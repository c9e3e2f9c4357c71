-- The streams of jobs: a stream of the server for each, and a hash that says what each of them keeps.
local function streams_key(id)
    return partition .. ':fs:' .. id
end

local function frames_key(id, stream)
    return partition .. ':fr:' .. id .. ':' .. stream
end

local function remove_streams(id)
    for _, stream in ipairs(redis.call('HKEYS', streams_key(id))) do
        removed[#removed + 1] = frames_key(id, stream)
        put('live_streams', id .. ' ' .. stream, false)
    end
    removed[#removed + 1] = streams_key(id)
end
