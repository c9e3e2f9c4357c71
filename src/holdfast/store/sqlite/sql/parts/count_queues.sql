-- live places only: counting what has ended would read the whole history
select queue, count(*) from {{place}} group by queue
