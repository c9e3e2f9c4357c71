delete from holdfast_worker where id = ?
