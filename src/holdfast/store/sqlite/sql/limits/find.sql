select
    l.name, l.settings, l.edited, l.retired, l.revision,
    (select count(*) from holdfast_bucket as b where b.name >= l.name || ':' and b.name < l.name || ';')
from holdfast_limit_rule as l
where :names is null or l.name in (select value from json_each(:names))
order by l.name
