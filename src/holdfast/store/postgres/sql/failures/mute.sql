-- $1 fingerprints   $2 until (null: not muted)
-- A failure that is not folded yet gets its row here, without the times that `failing` still counts.
-- uses: failures
with {{failures}}
insert into {{schema}}.failure
    (fingerprint, task, kind, times, first_at, last_at, muted_until)
select fingerprint, task, kind, 0, first_at, last_at, $2::timestamptz from failures
where fingerprint = any ($1::text[])
order by fingerprint
on conflict (fingerprint) do update set muted_until = excluded.muted_until
returning fingerprint
