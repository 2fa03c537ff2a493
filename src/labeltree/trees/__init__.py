"""Label trees: built by K-means, or given by the user as a hierarchy, clusters, or a file."""

from labeltree.trees.file import TreeFile, read_tree
from labeltree.trees.given import from_clusters, from_parents

__all__ = ["TreeFile", "from_clusters", "from_parents", "read_tree"]
