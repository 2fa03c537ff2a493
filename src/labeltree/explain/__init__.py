"""Explanations: why a model predicts what it does, and what it has learned."""
