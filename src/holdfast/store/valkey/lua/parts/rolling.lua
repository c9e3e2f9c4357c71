-- The marks of rolling up, in minutes since 1970. Every partition has its `sealed`; the first one has
-- `rolled`.
local function sealed()
    return tonumber(redis.call('GET', partition .. ':sealed') or 0)
end

local function rolled()
    return tonumber(redis.call('GET', partition .. ':rolled') or 0)
end
