"""Training: from data to a model, in steps that can be interrupted and shared."""
