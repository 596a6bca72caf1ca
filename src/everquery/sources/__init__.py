"""Where events come from: a simulated market, files, pipes."""
