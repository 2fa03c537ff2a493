"""The HTTP service, and the page that shows a model."""
