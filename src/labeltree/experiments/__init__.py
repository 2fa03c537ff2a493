"""The paper's tables and figures, each made by one function on a session's data."""
