"""The commands: one function each, named like the command; related ones share a file."""
