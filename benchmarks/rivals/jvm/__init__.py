"""Esper and Flink beside everquery, on demand: ``make bench-jvm``."""
