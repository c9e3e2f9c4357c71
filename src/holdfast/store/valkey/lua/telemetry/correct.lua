-- Add to the counts what a recount found missing.
-- KEYS: partition
-- ARGV: rows
-- uses: counts
--
-- `rows`: [field, number of jobs]
for _, row in ipairs(cmsgpack.unpack(rows)) do
    tally(row[1], row[2])
end
return 1
