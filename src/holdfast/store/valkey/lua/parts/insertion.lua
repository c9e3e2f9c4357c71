-- Adding jobs. A job comes as a list: [id, task, queue, body, priority, run_at, delay, deadline_at,
-- deadline_in, timeout, key, key_states, on_conflict, index].
--
-- The block hides all but `ID` and `insert_once`: a script may have 200 local names.
local ID = 1
local insert_once

do
    local JOB_TASK, JOB_QUEUE, BODY, JOB_PRIORITY, RUN_AT, DELAY = 2, 3, 4, 5, 6, 7
    local END_AT, END_IN, JOB_TIMEOUT, JOB_KEY, JOB_STATES, ON_CONFLICT, INDEX = 8, 9, 10, 11, 12, 13, 14

    local function due_at(job)
        return job[RUN_AT] or (job[DELAY] and after(job[DELAY])) or moment
    end

    local function add(job)
        local id, due = job[ID], due_at(job)
        local deadline = job[END_AT] or (job[END_IN] and after(job[END_IN])) or false
        local record = {
            'ready', job[JOB_QUEUE], job[JOB_PRIORITY], arrive(job[INDEX]), job[JOB_TASK], 0, 0, 0,
            moment, false, false, false, job[JOB_TIMEOUT] or false, false, deadline, moment, false,
            false, false, job[JOB_KEY] or false, job[JOB_STATES] or false, false, false,
            job[INDEX] % SALTS
        }
        if due > moment then
            record[STATE], record[AT], record[READY_AT] = 'scheduled', due, false
        else
            wake('ready:' .. job[JOB_QUEUE])
        end
        if record[AT] or record[DEADLINE_AT] then
            wake('due')
        end
        texts['b:' .. id] = job[BODY]
        records[id] = record
        enlist(id, record, true)
        enter(id, record)
    end

    -- The job that has the key by right: it exists and is in a state that it asked for.
    local function holder_of(key)
        local id = taken[key] or redis.call('HGET', partition .. ':unique', key)
        if not id then
            return nil
        end
        load({id})
        local record = records[id]
        if record and string.find(record[KEY_STATES] or '', ' ' .. record[STATE] .. ' ', 1, true) then
            return id, record
        end
        return nil
    end

    local function settle_conflict(job, holder, record)
        local state = record[STATE]
        if job[ON_CONFLICT] == 'replace' and state ~= 'running' and LIVE[state] then
            add(job)
            make_ended(holder, record, 'cancelled', kept_by_policy(holder), 'replaced by ' .. job[ID])
            return job[ID], 'replaced'
        end
        if job[ON_CONFLICT] == 'debounce' and (state == 'ready' or state == 'scheduled') then
            make_due(holder, record, due_at(job), arrive(job[INDEX]))
            return holder, 'debounced'
        end
        return holder, 'existing'
    end

    local function insert(job)
        if not job[JOB_KEY] then
            add(job)
            return job[ID], 'created'
        end
        local holder, record = holder_of(job[JOB_KEY])
        if not holder then
            add(job)
            taken[job[JOB_KEY]] = job[ID]
            return job[ID], 'created'
        end
        local id, how = settle_conflict(job, holder, record)
        if how == 'replaced' then
            taken[job[JOB_KEY]] = id
        end
        return id, how
    end

    -- Whether the job that has this id is one of the same task with the same arguments, which are the
    -- first value of a body.
    local function is_repeated(job)
        load({job[ID]})
        local record = records[job[ID]]
        local body = texts['b:' .. job[ID]] or redis.call('GET', partition .. ':b:' .. job[ID])
        if not record or record[TASK] ~= job[JOB_TASK] or not body then
            return false
        end
        return cmsgpack.unpack(body)[1] == cmsgpack.unpack(job[BODY])[1]
    end

    -- Add a job unless its id is there already. Answers id and how.
    function insert_once(job)
        local id = job[ID]
        if records[id] or redis.call('EXISTS', partition .. ':s:' .. id) == 1 then
            return id, is_repeated(job) and 'created' or 'taken'
        end
        return insert(job)
    end
end
