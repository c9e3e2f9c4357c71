-- What a claim tells of the nodes among its jobs.
-- uses: record
local FACTS_BATCH = 1000

-- Those of these nodes whose flow is being cancelled: mostly no flow is. A row that cannot be read names
-- none.
local function closing_among(ids, rows)
    local closing, cancelling = {}, partition .. ':flows:cancelling'
    if redis.call('EXISTS', cancelling) == 0 then
        return closing
    end
    for n = 1, #ids do
        local is_read, flow = pcall(first_of_row, rows[n])
        if is_read and type(flow) == 'string' and redis.call('ZSCORE', cancelling, flow) then
            closing[#closing + 1] = ids[n]
        end
    end
    return closing
end

-- Lists of three values, each for some of these nodes: their ids, their rows (false where there is none),
-- and the ids of those whose flow is being cancelled.
local function facts_of(ids)
    local answer = {}
    for first = 1, #ids, FACTS_BATCH do
        local some, keys = {}, {}
        for n = first, math.min(first + FACTS_BATCH - 1, #ids) do
            some[#some + 1], keys[#keys + 1] = ids[n], partition .. ':n:' .. ids[n]
        end
        local rows = redis.call('MGET', unpack(keys))
        answer[#answer + 1] = {some, rows, closing_among(some, rows)}
    end
    return answer
end
