-- Remove a job with all that belongs to it, and its unique key if no other job has taken it.
-- `record` is false for a job that was put aside.
-- uses: steps children
local function remove(id, record, what)
    if record then
        note(what, record)
        leave(id, record)
        local key = record[KEY]
        if key and redis.call('HGET', partition .. ':unique', key) == id then
            after_all[#after_all + 1] = {'HDEL', partition .. ':unique', key}
            after_all[#after_all + 1] = {'HDEL', partition .. ':unique_until', key}
        end
    else
        put('expiry', id, false)
        put('aside', id, false)
    end
    put('deadlines', id, false)
    for _, kind in ipairs({':b:', ':s:', ':e:', ':h:', ':p:'}) do
        removed[#removed + 1] = partition .. kind .. id
    end
    if not record or has_steps(record) then
        remove_steps(id)
    end
    let_go_of_children(id, record)
    records[id], changed[id] = nil, nil
end
