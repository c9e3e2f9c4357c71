-- One snapshot for all reads of the transaction. Each read is planned for the filters that it really
-- has: a plan that suits any filters would read the whole history. Both settings end with the
-- transaction.
set transaction isolation level repeatable read, read only;
set local plan_cache_mode = force_custom_plan
