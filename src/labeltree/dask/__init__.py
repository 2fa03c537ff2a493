"""Training on a Dask cluster."""
