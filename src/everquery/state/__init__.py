"""What a shard remembers of keys and queries, and how it is stored."""
