"""Fit power laws to measurements, with confidence intervals."""

from __future__ import annotations
