select name from holdfast_bucket where rings limit ?
