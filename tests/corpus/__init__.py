"""Raw strategy-stage generations of our own writing, each with what must be extracted from it."""
