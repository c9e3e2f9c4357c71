-- $1 now   $2 channel   $3 id   $4 name   $5 value   $6 key   $7 step that must not have ended
-- $8 signals that a job may have   $9 bytes that those may take that no step has taken
-- $10 how the names of signals begin that do not count   $11 who sends
-- One signal for a suspended job as `signals/send` sends it; null if it has to be sent by that.
select {{schema}}.send_signal({{now}}, $2::text, $3::uuid, $4::text, $5::text, $6::text, $7::text, $8::int,
    $9::bigint, $10::text, $11::text, {{first_kept}}, {{newest_kept}})
