-- What a claim tells of the nodes among its jobs.
-- uses: record
local FACTS_BATCH = 1000

local function rows_of(ids)
    local rows = {}
    for first = 1, #ids, FACTS_BATCH do
        local keys = {}
        for n = first, math.min(first + FACTS_BATCH - 1, #ids) do
            keys[#keys + 1] = partition .. ':n:' .. ids[n]
        end
        local found = redis.call('MGET', unpack(keys))
        for n = 1, #keys do
            rows[first + n - 1] = found[n]
        end
    end
    return rows
end

-- Those of these nodes whose flow is being cancelled: mostly no flow is. A row that cannot be read names
-- none. `rows`: if they have been read.
local function closing_among(ids, rows)
    local closing, cancelling = {}, partition .. ':flows:cancelling'
    if redis.call('EXISTS', cancelling) == 0 then
        return closing
    end
    rows = rows or rows_of(ids)
    for n = 1, #ids do
        local is_read, flow = pcall(first_values, rows[n], 1)
        if is_read and type(flow) == 'string' and redis.call('ZSCORE', cancelling, flow) then
            closing[#closing + 1] = ids[n]
        end
    end
    return closing
end

-- The JSON of inputs is looked through, not read: inside a string each quote has a backslash before it, so these
-- words stand nowhere else. `facts_in` in node_facts.py reads it, and counts on nothing that is found here.
local function note_upstreams(row, found, seen)
    local _, _, inputs = first_values(row, 3)
    for job in string.gmatch(inputs or '', '{"type":"result","job":"([^"]+)"}') do
        if not seen[job] then
            seen[job], found[#found + 1] = true, job
        end
    end
end

-- The nodes whose results these rows take one by one, and their records. None if they are many: the worker
-- asks for them.
local function upstreams_of(rows)
    local found, seen, keys = {}, {}, {}
    for n = 1, #rows do
        pcall(note_upstreams, rows[n], found, seen) -- a row that cannot be read takes none
    end
    if #found == 0 or #found > FACTS_BATCH then
        return {}, {}
    end
    for n = 1, #found do
        keys[n] = partition .. ':s:' .. found[n]
    end
    return found, redis.call('MGET', unpack(keys))
end

-- The ids of these nodes, and of those whose flow is being cancelled. Of few nodes also their rows (false where
-- there is none), the ids of upstreams, and the records of those: so a hop from node to node is two round trips.
local function facts_of(ids, are_few)
    if not are_few then
        return {ids, closing_among(ids)}
    end
    local rows = rows_of(ids)
    local upstreams, upstream_records = upstreams_of(rows)
    return {ids, closing_among(ids, rows), rows, upstreams, upstream_records}
end
