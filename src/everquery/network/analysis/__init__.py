"""Static analysis of networks: rates, costs, capacity, and what each output depends on."""
