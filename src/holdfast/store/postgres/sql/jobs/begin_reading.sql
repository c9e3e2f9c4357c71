-- One snapshot for all reads of a transaction, each planned for the filters it really has: a plan
-- for any filters at all would read the whole history. Both settings end with the transaction.
set transaction isolation level repeatable read, read only;
set local plan_cache_mode = force_custom_plan
