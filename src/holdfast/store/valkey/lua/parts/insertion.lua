-- Adding jobs, each given as a JobRow.
-- uses: edited keys
--
-- The block hides all but `insert_once`: a script may have 200 local names.
local insert_once

do
    local function due_at(job)
        if job[JOB_BLOCKED] then
            return moment -- a blocked call has no time of its own
        end
        return job[JOB_RUN_AT] or (job[JOB_DELAY] and after(job[JOB_DELAY])) or moment
    end

    local function new_record(job)
        local record = {}
        for n = 1, RECORD_WIDTH do
            record[n] = false
        end
        record[QUEUE], record[TASK] = job[JOB_QUEUE], job[JOB_TASK]
        record[PRIORITY] = job[JOB_PRIORITY]
        record[SEQ], record[SPREAD] = arrive(job[JOB_INDEX]), job[JOB_INDEX] % SPREADS
        record[ATTEMPTS], record[CRASHES], record[FENCE] = 0, 0, 0
        record[TIMEOUT], record[TIES] = job[JOB_TIMEOUT] or false, job[JOB_TIES]
        if job[JOB_BUCKETS] then
            record[PLAN], record[BUCKETS], record[COSTS] = false, job[JOB_BUCKETS], job[JOB_COSTS] or false
            record[WEIGHT], record[TOTAL], record[SPENT] = job[JOB_WEIGHT], false, false
            record[LAST_SPREAD] = record[SPREAD]
        end
        record[KEY], record[KEY_STATES] = job[JOB_KEY] or false, job[JOB_KEY_STATES] or false
        local deadline_in = job[JOB_DEADLINE_IN]
        record[DEADLINE_AT] = job[JOB_DEADLINE_AT] or (deadline_in and after(deadline_in)) or false
        record[CREATED_AT] = moment
        return record
    end

    -- A blocked job waits for its release, whenever it was to run.
    local function add(job)
        local id, record, due = job[JOB_ID], new_record(job), due_at(job)
        if job[JOB_BLOCKED] then
            record[STATE] = 'blocked'
        elseif due > moment then
            record[STATE], record[AT] = 'scheduled', due
        else
            record[STATE], record[READY_AT] = 'ready', moment
            wake('ready:' .. record[QUEUE])
        end
        if record[AT] or record[DEADLINE_AT] then
            wake('due')
        end
        texts['b:' .. id] = job[JOB_BODY]
        records[id] = record
        enlist(id, record, true)
        enter(id, record)
        note('enqueued', record)
    end

    -- The job that holds a unique key, if one does.
    local function holder_of(key)
        local id = taken[key] or redis.call('HGET', partition .. ':unique', key)
        if not id then
            return nil
        end
        load({id})
        local record = records[id]
        if record and holds_key(id, record) then
            return id, record
        end
        return nil
    end

    -- Give a waiting holder the arguments of a newer call, and push its time out to that of the call,
    -- at most so many seconds after its own insertion.
    local function debounce(job, holder, record)
        local at, max_wait = due_at(job), job[JOB_MAX_WAIT]
        if max_wait then
            at = math.min(at, record[CREATED_AT] + math.floor(max_wait * 1000000 + 0.5))
        end
        local text = texts['b:' .. holder] or redis.call('GET', partition .. ':b:' .. holder)
        local args = cmsgpack.unpack(job[JOB_BODY])[BODY_ARGS]
        local new = text and edited(text, args, '')
        if new ~= text then
            tell(holder, seen(record), 'edited', false, DEBOUNCED)
        end
        texts['b:' .. holder] = new
        make_due(holder, record, at, arrive(job[JOB_INDEX]), false, DEBOUNCED)
    end

    local function settle_conflict(job, holder, record)
        local state = record[STATE]
        if job[JOB_ON_CONFLICT] == 'replace' and WAITING[state] then
            add(job)
            local reason = 'replaced by ' .. job[JOB_ID]
            tell(holder, seen(record), 'cancelled', false, reason)
            make_ended(holder, record, 'cancelled', kept_by_policy(holder), reason)
            return job[JOB_ID], 'replaced'
        end
        local has_begun = bit.band(record[TIES], TIE_BEGUN) ~= 0
        if job[JOB_ON_CONFLICT] == 'debounce' and (state == 'ready' or state == 'scheduled') and not has_begun then
            debounce(job, holder, record)
            return holder, 'debounced'
        end
        return holder, 'existing'
    end

    local function insert(job)
        if not job[JOB_KEY] then
            add(job)
            return job[JOB_ID], 'created'
        end
        local holder, record = holder_of(job[JOB_KEY])
        if not holder then
            add(job)
            take_key(job[JOB_ID], job[JOB_KEY], job[JOB_PERIOD])
            return job[JOB_ID], 'created'
        end
        local id, how = settle_conflict(job, holder, record)
        if how == 'replaced' then
            take_key(id, job[JOB_KEY], job[JOB_PERIOD])
        end
        return id, how
    end

    -- Whether the job that has this id is one of the same task with the same arguments.
    local function is_repeated(job)
        local id = job[JOB_ID]
        load({id})
        local record = records[id]
        local body = texts['b:' .. id] or redis.call('GET', partition .. ':b:' .. id)
        if not record or record[TASK] ~= job[JOB_TASK] or not body then
            return false
        end
        return cmsgpack.unpack(body)[BODY_ARGS] == cmsgpack.unpack(job[JOB_BODY])[BODY_ARGS]
    end

    -- Add a job unless its id is there already. Answers id and how.
    function insert_once(job)
        local id = job[JOB_ID]
        if records[id] or redis.call('EXISTS', partition .. ':s:' .. id) == 1 then
            return id, is_repeated(job) and 'created' or 'taken'
        end
        return insert(job)
    end
end
