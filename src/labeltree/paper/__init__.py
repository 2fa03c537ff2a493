"""The paper: its formulas as functions, and its tables and figures on your data."""
