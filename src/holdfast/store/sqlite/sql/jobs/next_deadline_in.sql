select at from holdfast_deadline order by at limit 1
