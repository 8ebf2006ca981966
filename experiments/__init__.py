"""The only place that trains: config, tasks, the loop, studies, and the store."""
