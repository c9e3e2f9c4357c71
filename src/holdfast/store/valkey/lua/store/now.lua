-- The time by which the store decides.
-- KEYS: partition
-- ARGV: now
-- uses: time
return string.format('%.0f', moment)
