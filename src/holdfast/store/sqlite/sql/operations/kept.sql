select number, jobs from holdfast_operation_kept
where operation = ? and number > ? order by number limit ?
