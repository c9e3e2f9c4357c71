-- An outcome that never expires needs no entry: those of nodes, which go with their flow.
drop index holdfast_outcome_expires;
create index holdfast_outcome_expires on holdfast_outcome (expires_at) where expires_at is not null;
