select state, count(*) from holdfast_flow group by state
