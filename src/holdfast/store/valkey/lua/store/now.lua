-- The moment that the store believes it is.
-- KEYS: partition
-- ARGV: now
-- uses: time
return string.format('%.0f', moment)
