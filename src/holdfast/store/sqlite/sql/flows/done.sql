delete from holdfast_errand where id in (select value from json_each(?))
