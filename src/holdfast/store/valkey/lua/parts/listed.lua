-- The sorted sets that list a job, by what its record says.
-- uses: names heads changes places aside

-- Set → member → score; nil where this program knows no place for the state of the job. What was put before by
-- this script is forgotten.
local function lists_of(id, record)
    local state = record[STATE]
    if not (LIVE[state] or ENDED[state]) then
        return nil
    end
    sorted = {}
    settle(id, record, true)
    if LIVE[state] then
        enlist(id, record, true)
    end
    local found = sorted
    sorted, counted, workers_touched, lines_touched = {}, {}, {}, {}
    return found
end

local function is_aside(id)
    return redis.call('ZSCORE', partition .. ':aside', id) and true or false
end

-- Let `heads` name the first job of a line.
local function restore_head(queue, task)
    drop_head(partition .. ':heads:' .. queue, '', task)
    update_head(queue, task, {}, first_of(partition .. ':ready:' .. line(queue, task)))
end
