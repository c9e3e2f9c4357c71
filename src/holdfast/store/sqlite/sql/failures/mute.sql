update holdfast_failure
set muted_until = :mark
where fingerprint in (select value from json_each(:fingerprints))
returning fingerprint
