"""The paper: its formulas as functions, and its tables and figures for any data."""
