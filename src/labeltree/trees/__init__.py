"""Label trees given by the user: a hierarchy, clusters, or a file."""

from labeltree.trees.file import GivenTree, read_tree
from labeltree.trees.hierarchy import from_clusters, from_parents

__all__ = ["GivenTree", "from_clusters", "from_parents", "read_tree"]
