update holdfast_failure
set note = :mark
where fingerprint in (select value from json_each(:fingerprints))
returning fingerprint
