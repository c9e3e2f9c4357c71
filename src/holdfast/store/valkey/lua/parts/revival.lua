-- Let an ended job begin anew, but for its history and fence: at the end of its line, or blocked.
-- uses: steps children
local function revive(id, record, state, seq)
    leave(id, record)
    forget_attempt(record)
    forget_steps(id, record)
    let_go_of_children(id, record)
    record[ATTEMPTS], record[CRASHES] = 0, 0
    record[TIES] = bit.band(record[TIES], bit.bnot(TIE_BEGUN))
    record[DEADLINE_AT], record[EXPIRES_AT], record[RESULT] = false, false, false
    record[FINGERPRINT] = false
    record[STATE], record[SEQ], record[READY_AT] = state, seq, state == 'ready' and moment
    note('requeued', record)
    enlist(id, record, true)
    enter(id, record)
    if state == 'ready' then
        wake('ready:' .. record[QUEUE])
    end
end
