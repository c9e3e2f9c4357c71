select id, passes from holdfast_job where passes is not null and id in (select value from json_each(?))
