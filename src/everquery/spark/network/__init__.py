"""Networks on Spark: stateless boxes as Spark's own operators, all others in one stateful stage."""
