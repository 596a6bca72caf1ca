"""Real servers for the tests, each on free loopback ports and gone without a trace at its end."""
