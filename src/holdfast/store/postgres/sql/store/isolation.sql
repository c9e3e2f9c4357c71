select current_setting('default_transaction_isolation')
