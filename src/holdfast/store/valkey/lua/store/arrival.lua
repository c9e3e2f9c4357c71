-- The server's time as the base of arrival numbers that several partitions share.
-- KEYS: partition
-- ARGV: now
-- uses: time
return string.format('%013x', server_time)
