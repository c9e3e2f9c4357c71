-- What a partition knows of failures besides their rows: how many dead jobs each of them has, and the
-- samples of some.
-- KEYS: partition
-- ARGV: chosen sampled
--
-- `chosen` and `sampled`: fingerprints. Answers the numbers of `chosen`, then the samples of `sampled`.
local dead, samples, wanted = {}, {}, cmsgpack.unpack(sampled)
for n, fingerprint in ipairs(cmsgpack.unpack(chosen)) do
    dead[n] = redis.call('ZCARD', partition .. ':dead:' .. fingerprint)
end
if #wanted > 0 then
    samples = redis.call('HMGET', partition .. ':failure_samples', unpack(wanted))
end
return {dead, samples}
