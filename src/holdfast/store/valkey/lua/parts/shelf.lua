-- Documents lie in the first partition: for each kind a hash of rows and a sorted set of keys, in
-- the order of their bytes; for all kinds together a sorted set of those that expire. A kind has no
-- ':' in its name, so it can be told from the key behind it.
local function document_row(kind, key)
    local found = redis.call('HGET', partition .. ':shelf:' .. kind, key)
    return found and cmsgpack.unpack(found)
end

local function is_there(row)
    return row and (not row[SHELF_EXPIRES_AT] or row[SHELF_EXPIRES_AT] > moment)
end

local function remove_document(kind, key)
    redis.call('HDEL', partition .. ':shelf:' .. kind, key)
    redis.call('ZREM', partition .. ':shelf-keys:' .. kind, key)
    redis.call('ZREM', partition .. ':shelf-expiry', kind .. ':' .. key)
end

local function keep_document(kind, key, row)
    remove_document(kind, key)
    redis.call('HSET', partition .. ':shelf:' .. kind, key, cmsgpack.pack(row))
    redis.call('ZADD', partition .. ':shelf-keys:' .. kind, 0, key)
    if row[SHELF_EXPIRES_AT] then
        redis.call('ZADD', partition .. ':shelf-expiry', row[SHELF_EXPIRES_AT], kind .. ':' .. key)
    end
end
