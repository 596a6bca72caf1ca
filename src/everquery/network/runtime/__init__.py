"""The embedded runtime of networks: arcs, a scheduler over Arrow batches, figures, state."""
