-- The records of a call's jobs. Each is read once; the later steps of a call see what the earlier
-- ones changed in it.
local records, changed = {}, {}

-- The table of a packed row. It is made with its full size: the one of `cmsgpack.unpack` grows value by
-- value. Of a very long row Lua cannot take all values at once.
local function unpacked(text)
    local kind, high, low = string.byte(text, 1, 3)
    if kind == 0xdc and high < 4 then -- a list of up to 1,023 values
        return {select(2, cmsgpack.unpack_limit(text, 256 * high + low, 3))}
    elseif kind >= 0x90 and kind < 0xa0 then -- of up to 15
        return {select(2, cmsgpack.unpack_limit(text, kind - 0x90, 1))}
    end
    return cmsgpack.unpack(text)
end

-- The first values of a packed row, for those who need no others.
local function first_values(text, number)
    local kind = string.byte(text, 1)
    local head = (kind == 0xdc and 3) or (kind == 0xdd and 5) or 1 -- bytes, by how long the list is
    return select(2, cmsgpack.unpack_limit(text, number, head))
end

-- Give the packed records of these jobs to `take`, many at a time, with the place of the first among
-- the ids. A record that cannot be read counts as missing: where all together fail, each is tried alone.
local function each_record(ids, take)
    local keys = {}
    for n = 1, #ids do
        keys[n] = partition .. ':s:' .. ids[n]
    end
    for first = 1, #keys, 2000 do
        local found = redis.call('MGET', unpack(keys, first, math.min(first + 1999, #keys)))
        if not pcall(take, ids, first, found) then
            for n = 1, #found do
                pcall(take, ids, first + n - 1, {found[n]})
            end
        end
    end
end

-- Raises an error if one of these values is no record at all.
local function keep_loaded(ids, first, found)
    for n = 1, #found do
        local id = ids[first + n - 1]
        if found[n] and not records[id] then
            local record = unpacked(found[n])
            if record[FENCE] then
                records[id] = record
            end
        end
    end
end

-- Read the records of these jobs.
local function load(ids)
    each_record(ids, keep_loaded)
end

local function packed(record)
    return cmsgpack.pack(record)
end
