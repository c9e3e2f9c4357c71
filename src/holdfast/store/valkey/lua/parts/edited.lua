-- A packed body with other arguments (JSON) or other tags (a packed list); '' leaves them as they are.
--
-- A value that is absent is nil here, and a list with a hole cannot be packed as it was. So each
-- value of the body is packed for itself.
local function edited(text, new_args, new_tags)
    local list_of_few = 144 -- how MessagePack marks a list of up to 15 values, plus their number
    local body, values = cmsgpack.unpack(text), {string.char(list_of_few + BODY_WIDTH)}
    for n = 1, BODY_WIDTH do
        values[n + 1] = cmsgpack.pack(body[n])
    end
    if new_args ~= '' then
        values[BODY_ARGS + 1] = cmsgpack.pack(new_args)
    end
    if new_tags ~= '' then
        values[BODY_TAGS + 1] = new_tags
    end
    return table.concat(values)
end
