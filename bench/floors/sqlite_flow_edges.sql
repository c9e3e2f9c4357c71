delete from edge where upstream = ? returning downstream
