"""The real ``tinker`` SDK as a second client: a correctness sample beside the load, in a process of its own."""
