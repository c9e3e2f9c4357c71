-- Only of dead jobs, so that those of a cause are counted in the index alone.
drop index {{schema}}.outcome_fingerprint;
create index outcome_fingerprint on {{schema}}.outcome (fingerprint, job_id)
where state = 'failed' and fingerprint is not null;
