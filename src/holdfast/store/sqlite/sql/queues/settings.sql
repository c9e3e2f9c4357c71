select settings from holdfast_queue where name = ?
