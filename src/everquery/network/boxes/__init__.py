"""One file a box: what it says, which rows it gives, and what runs it."""
