-- All that an opening has to know, asked at once: the server may be far away.
select version, checksum, current_setting('default_transaction_isolation') as isolation
from {{schema}}.migration
