update node set waits = waits - 1 where id = ?
