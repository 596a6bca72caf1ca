"""The quantile query: the value at a rank, told whenever it has moved."""
