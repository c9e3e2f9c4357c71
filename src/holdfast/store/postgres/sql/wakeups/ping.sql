select 1 where current_setting('transaction_read_only') = 'off'
