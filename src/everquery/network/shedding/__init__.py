"""Load shedding: which rows go when the machine can't keep up, and the count of all that went."""
