-- $1 .. $9 as in filtered
-- uses: filtered
select place.state, count(*)::bigint as jobs
from {{schema}}.place
where {{filtered}}
group by place.state
