select p.state, count(*)
from ({{walk}}) as p
where {{parts/filter}}
group by p.state
