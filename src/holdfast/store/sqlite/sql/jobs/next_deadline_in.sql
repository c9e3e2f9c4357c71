select min(at) from holdfast_deadline
