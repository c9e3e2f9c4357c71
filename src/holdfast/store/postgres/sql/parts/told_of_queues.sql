-- What a claim tells of its queues beside jobs: one text for each, mostly none. `+queue`: jobs with limits may begin
-- there. `=queue`: the queue has rules. Expects `asked`, and a word, `ruled`: the texts of queues that have rules.
-- Gives `told`. It is no row of its own among the jobs, because nodes of a plan cost a lone claim more than rows do.
-- For the same reason a function looks for lines, and only where some store of lines is not empty.
told as materialized (
    select array_cat(
        case when exists (select from {{schema}}.newcomer) or exists (select from {{schema}}.line)
            then {{schema}}.lines_wait(array(select queue from asked), {{now}}) end,
        {{ruled}}) as queues
)
