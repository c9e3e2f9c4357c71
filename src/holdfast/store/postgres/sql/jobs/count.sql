-- $1 .. $22 as in filtered
-- uses: walked filtered
-- let once: limit 1
select place.state, count(*)::bigint as jobs
from {{schema}}.place
where {{walked}}
and {{filtered}}
group by place.state
