-- The two moves that nearly all nodes make, done to the packed record: the new text is put together from pieces
-- of the old one. To unpack a record and pack it again takes several times as long.
-- uses: time
--
-- Only a record without a plan or limits is moved so: it has RECORD_WIDTH values. Any other record begins with other
-- bytes, and is moved by whoever knows all records. The order of values is that of `Record` in layout.py.
local moved_texts = {} -- one name for all: a script may have 200 local names

do
    local sub, values = string.sub, cmsgpack.unpack_limit -- `values` answers the place behind them, and then the values
    local head, absent, at_moment = string.char(0xdc, 0, RECORD_WIDTH), cmsgpack.pack(false), cmsgpack.pack(moment)
    local before_seq = string.char(0xa0 + SEQ_LENGTH)
    local running, succeeded = head .. cmsgpack.pack('running') .. before_seq, head .. cmsgpack.pack('succeeded') .. before_seq
    local blocked, ready = head .. cmsgpack.pack('blocked') .. before_seq, head .. cmsgpack.pack('ready') .. before_seq
    -- What stands between `seq` and `fence` of a job that never ran: attempts, and values that are absent.
    local unmoved = cmsgpack.pack(0) .. string.rep(absent, FENCE - READY_AT)
    local released = cmsgpack.pack(0) .. at_moment .. string.rep(absent, FENCE - AT)
    local first_unmoved, at_fence = #blocked + SEQ_LENGTH + 1, #blocked + SEQ_LENGTH + #unmoved

    local numbers = {}

    -- A number as it stands in a packed row. The rows of a batch have few different ones, so each is packed once.
    function moved_texts.number(number)
        local text = numbers[number]
        if not text then
            text = cmsgpack.pack(number)
            numbers[number] = text
        end
        return text
    end

    -- Whether this is a blocked job that never ran.
    function moved_texts.is_blocked(text)
        return sub(text, 1, #blocked) == blocked and sub(text, first_unmoved, at_fence) == unmoved
    end

    -- The same job at the end of its line, and its queue, task and priority.
    function moved_texts.released(text, seq)
        local _, _, _, _, _, queue, task, priority = values(text, PRIORITY - FENCE + 1, at_fence)
        return ready .. seq .. released .. sub(text, at_fence + 1), queue, task, priority
    end

    function moved_texts.is_running(text)
        return sub(text, 1, #running) == running
    end

    -- A running job that has returned; and its fence, worker, ties, deadline, queue and task, and when the attempt was
    -- to time out.
    function moved_texts.succeeded(text, result)
        local behind_seq = #running + SEQ_LENGTH
        local fence_at, attempts, _, times_out_at = values(text, FENCE - ATTEMPTS, behind_seq)
        local _, fence, worker, ties, deadline_at, queue, task = values(text, TASK - FENCE + 1, fence_at)
        return succeeded .. sub(text, #running + 1, behind_seq) .. moved_texts.number(attempts + 1) .. absent .. at_moment
            .. absent .. (result and cmsgpack.pack(result) or absent) .. sub(text, fence_at + 1),
            fence, worker, ties, deadline_at, queue, task, times_out_at
    end
end
