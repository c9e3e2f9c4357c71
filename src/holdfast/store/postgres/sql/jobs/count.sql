-- $1 .. $9 as in filtered
-- uses: filtered
select place.state, count(*)::bigint
from {{schema}}.place
where {{filtered}}
group by place.state
