"""Data: files and arrays in, a dataset out."""
