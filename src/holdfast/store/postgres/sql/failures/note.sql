-- $1 fingerprints   $2 note (null: none)
-- A failure that is not folded yet gets its row here, without the times that `failing` still counts.
-- uses: failures
with {{failures}}
insert into {{schema}}.failure
    (fingerprint, task, kind, times, first_at, last_at, note)
select fingerprint, task, kind, 0, first_at, last_at, $2::text from failures
where fingerprint = any ($1::text[])
order by fingerprint
on conflict (fingerprint) do update set note = excluded.note
returning fingerprint
