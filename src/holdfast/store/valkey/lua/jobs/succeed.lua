-- End attempts of jobs without ties, or with steps only, that returned. What is refused changes nothing.
-- KEYS: partition
-- ARGV: now moves
-- uses: time successes
--
-- `moves`, and what is answered: see `succeed_all`.
return succeed_all(cmsgpack.unpack(moves), TIE_STEPS + TIE_BEGUN)
