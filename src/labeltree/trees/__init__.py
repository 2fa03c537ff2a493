"""Label trees given by the user: a hierarchy, clusters, or a file."""

from labeltree.trees.clusters import from_clusters
from labeltree.trees.file import TreeFile, read_tree
from labeltree.trees.hierarchy import from_parents

__all__ = ["TreeFile", "from_clusters", "from_parents", "read_tree"]
