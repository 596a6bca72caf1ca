"""The command line: parse, call, print. The only place that reads a clock."""
