"""Models: the layout of their files, opened, predicted with and compressed."""
