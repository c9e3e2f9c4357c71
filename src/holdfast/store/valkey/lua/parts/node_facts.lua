-- What a claim tells of the nodes among its jobs.
-- uses: record
--
-- Their bodies and the records of the upstreams whose results they take come with it. To read those with a
-- command of its own, the worker would wait behind the script that ends other nodes meanwhile.
local FACTS_BATCH = 1000

-- Those of these nodes whose flow is being cancelled: mostly no flow is. A row that cannot be read names
-- none.
local function closing_among(ids, rows)
    local closing, cancelling = {}, partition .. ':flows:cancelling'
    if redis.call('EXISTS', cancelling) == 0 then
        return closing
    end
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

-- The nodes whose results these rows take one by one. None if they are many: their worker asks for them.
local function upstreams_of(rows)
    local found, seen = {}, {}
    for n = 1, #rows do
        pcall(note_upstreams, rows[n], found, seen) -- a row that cannot be read takes none
    end
    return #found <= FACTS_BATCH and found or {}
end

local function texts_of(kind, ids)
    local keys = {}
    for n = 1, #ids do
        keys[n] = kind .. ids[n]
    end
    return #keys > 0 and redis.call('MGET', unpack(keys)) or {}
end

-- Lists of five values, each for some of these nodes: their ids, their rows (false where there is none),
-- the ids of those whose flow is being cancelled, the ids of upstreams, and the records of those.
local function facts_of(ids)
    local answer = {}
    for first = 1, #ids, FACTS_BATCH do
        local some = {}
        for n = first, math.min(first + FACTS_BATCH - 1, #ids) do
            some[#some + 1] = ids[n]
        end
        local rows = texts_of(partition .. ':n:', some)
        local upstreams = upstreams_of(rows)
        local records_of_upstreams = texts_of(partition .. ':s:', upstreams)
        answer[#answer + 1] = {some, rows, closing_among(some, rows), upstreams, records_of_upstreams}
    end
    return answer
end
