-- What workers need to know of nodes, at one moment.
-- KEYS: partition
-- ARGV: chosen
-- uses: node_inputs
--
-- `chosen`: ids.
return inputs_of(cmsgpack.unpack(chosen))
