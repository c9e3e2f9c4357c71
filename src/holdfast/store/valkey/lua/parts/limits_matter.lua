-- Whether a claim has to look at limits.
-- uses: queues

-- Whether lines are parked at a bucket that has room for them.
local function lines_may_go_on()
    local most = string.format('%.0f', moment)
    return #redis.call('ZRANGEBYSCORE', partition .. ':opening', '-inf', most, 'LIMIT', 0, 1) > 0
end

-- One of these queues has a total or ages, has open lines, or lines may go on somewhere. Lines that are parked concern
-- nobody.
local function limits_matter(wanted)
    local groups = {}
    for n, want in ipairs(wanted) do
        if setting_of(want[1], 'max_running') or setting_of(want[1], 'aging') then
            return true
        end
        groups[n] = partition .. ':groups:' .. want[1]
    end
    if redis.call('EXISTS', partition .. ':lines') == 0 then
        return false
    elseif redis.call('EXISTS', unpack(groups)) > 0 then
        return true
    end
    return lines_may_go_on()
end
