-- The mark of the store. Only the master of this very store may say that there is no such job, so such an
-- answer carries the mark, and the caller compares it with the one that it knows. A replica refuses the
-- removal.
local function mark_of_store()
    redis.call('DEL', partition .. ':nothing')
    return redis.call('GET', partition .. ':mark')
end
