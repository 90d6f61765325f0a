"""The only room of the load path with sockets and a clock."""
