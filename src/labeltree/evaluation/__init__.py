"""Evaluation: metrics, decisions and comparisons of ranked labels."""
