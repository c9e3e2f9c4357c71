-- An arrival number sorts as text: 13 hexadecimal digits of microseconds, 4 of the place within
-- the batch. With several partitions the caller gives one base for all of them.
local arrival_base = arrival ~= '' and arrival or string.format('%013x', server_time)

local function arrive(index)
    return arrival_base .. string.format('%04x', index)
end
