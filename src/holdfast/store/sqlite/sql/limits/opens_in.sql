select min(opens_at) from holdfast_bucket where has_waiting and opens_at is not null
