-- Decide what a cascade of skips left undecided.
-- KEYS: partition
-- ARGV: now arrival kept_otherwise chosen
-- uses: unrefused time arrival record counts changes names places queues moves unsettled
--
-- `chosen`: ids of flows.
for _, flow in ipairs(cmsgpack.unpack(chosen)) do
    settle_flow(flow)
end
flush()
