-- $1 queues (null: all)
-- uses: tallied
with {{tallied}}
select queue, task, state, jobs from tallied
where $1::text[] is null or queue = any ($1::text[])
