-- The marks of rolling up, in minutes since 1970. Every partition has its `closed`; the first one has
-- `rolled`.
local function closed()
    return tonumber(redis.call('GET', partition .. ':closed') or 0)
end

local function rolled()
    return tonumber(redis.call('GET', partition .. ':rolled') or 0)
end
