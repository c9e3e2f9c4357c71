-- $1 now   $2 channel   $3 ids   $4 names   $5 values   $6 keys   $7 steps that must not have ended
-- $8 signals that a job may have   $9 bytes that those may take that no step has taken
-- $10 how the names of signals begin that do not count   $11 who sends
-- uses: wake_suspended counted happened_waiting told woken
-- let what: 'resumed'
-- let by: $11::text
-- let due: null::timestamptz
-- let message: 'signal ' || signal
-- Keeps signals, and makes jobs ready that are suspended for them. This statement has a snapshot from
-- before the jobs were locked. If a job was suspended between the two, the statement does not see the job
-- in its place, and is done again.
with sent as materialized (
    select * from {{schema}}.keep_signals({{now}}, $3::uuid[], $4::text[], $5::text[], $6::text[],
        $7::text[], $8::int, $9::bigint, $10::text)
),
met as materialized (
    select distinct on (job_id) job_id, name as signal, place from sent where awaited
    order by job_id, place
),
{{wake_suspended}}
select sent.state, sent.fits, sent.kept, sent.late, met.place is not null as woke, woken.calls,
    case when sent.awaited and gone.job_id is null
        then {{schema}}.again('a job was suspended just before its signal') end as seen
from sent
left join met on met.place = sent.place
left join gone on gone.job_id = sent.job_id
cross join woken
order by sent.place
