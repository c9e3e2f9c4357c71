-- With the state, so that the dead jobs of a cause are counted in the index alone.
drop index holdfast_outcome_fingerprint;
create index holdfast_outcome_fingerprint on holdfast_outcome (fingerprint, state, job_id)
where fingerprint is not null;
