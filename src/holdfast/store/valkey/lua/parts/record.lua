-- A job's record: a MessagePack list of these values, false where there is none: a list with
-- holes would be packed as a map.
local STATE, QUEUE, PRIORITY, SEQ, TASK, ATTEMPTS, CRASHES, FENCE = 1, 2, 3, 4, 5, 6, 7, 8
local READY_AT, AT, WORKER, CLAIMED_AT, TIMEOUT, CANCEL_AT = 9, 10, 11, 12, 13, 14
local DEADLINE_AT, CREATED_AT, REASON, EXPIRES_AT, RESULT = 15, 16, 17, 18, 19
local KEY, KEY_STATES, HAS_PROGRESS = 20, 21, 22
local AHEAD = 23 -- whether a running job was claimed with no slot free for it
local SALT = 24 -- a small number that differs among the jobs of a batch, see rows.py
local PLAN = 25 -- only of a job that a plan started: [schedule, scope, plan time]

local SALTS = 128
local LIVE = {ready = true, scheduled = true, running = true, suspended = true, blocked = true}

local records, changed = {}, {}

-- An error where one of them is no record at all.
local function keep_loaded(ids, first, found)
    for n = 1, #found do
        local id = ids[first + n - 1]
        if found[n] and not records[id] then
            local record = cmsgpack.unpack(found[n])
            if record[FENCE] then
                records[id] = record
            end
        end
    end
end

-- Read the records of a batch once; what a verb changes in them is seen by its later steps. One that
-- cannot be read is as good as none: it is found by trying each alone where all together fail.
local function load(ids)
    local keys = {}
    for n = 1, #ids do
        keys[n] = partition .. ':s:' .. ids[n]
    end
    for first = 1, #keys, 2000 do
        local found = redis.call('MGET', unpack(keys, first, math.min(first + 1999, #keys)))
        if not pcall(keep_loaded, ids, first, found) then
            for n = 1, #found do
                pcall(keep_loaded, ids, first + n - 1, {found[n]})
            end
        end
    end
end

local function packed(record)
    return cmsgpack.pack(record)
end
