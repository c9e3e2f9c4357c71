-- Whether a filter asks nothing of bodies: the parameters of `body_fits`.
$5::text[] is null and $18::text is null and $20::text is null
and $6::timestamptz is null and $7::timestamptz is null
