-- Arrival numbers, which sort as text: 13 hexadecimal digits of microseconds, then 4 of the job's
-- place within the call. With several partitions the caller gives one base for all of them.
local arrival_base = arrival ~= '' and arrival or string.format('%013x', server_time)

local function arrive(index)
    return arrival_base .. string.format('%04x', index)
end
