"""A variant of the default settings: what tuning changes, one setting at a time and combined."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from labeltree.settings import TreeSettings

# What is tried instead of the defaults, one setting at a time.
_FACTORS = (0.5, 2.0)  # of the cost, and of that of positive instances
_CLUSTERS = (32, 250)
_TREES = 3
_TERMS = (((1, 1), 2), ((1, 2), 2), ((1, 2), 5))  # n-grams and min_df


@dataclass(frozen=True)
class Variant:
    """Settings that are tried together.

    Attributes
    ----------
    cost, positive_cost, clusters, max_depth, trees
        As in `TreeSettings` and `SolverSettings`.
    ngrams : tuple of int or None
        As in `TextSettings`; None if the data is not text, or if terms are not searched.
    min_df : int or None
        Likewise.
    """

    cost: float
    positive_cost: float = 1.0
    clusters: int = TreeSettings.clusters
    max_depth: int = TreeSettings.max_depth
    trees: int = TreeSettings.trees
    ngrams: tuple[int, int] | None = None
    min_df: int | None = None

    @property
    def max_cost(self) -> float:
        """As in `SolverSettings`, for rows of length 1: the default, whatever the cost at the root."""
        return max(1.0, self.cost)

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Variant:
        """Return the variant that `to_dict` described."""
        ngrams = content.get("ngrams")
        return cls(**{**content, "ngrams": None if ngrams is None else tuple(ngrams)})

    def to_dict(self) -> dict[str, Any]:
        """Return the settings, without those that are not set."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    def changes(self, start: Variant) -> dict[str, Any]:
        """Return the settings that differ from those of another variant."""
        names = (item.name for item in fields(self))
        return {name: getattr(self, name) for name in names if getattr(self, name) != getattr(start, name)}

    def describe(self, start: Variant) -> str:
        """Describe how the variant differs from another one, such as "cost 2, clusters 32"."""
        changes = self.changes(start)
        if changes.get("max_depth") == 1:
            changes = {"one-vs-rest": "", **{name: changes[name] for name in changes if name != "max_depth"}}
        shown = (f"{name} {_text(value)}".rstrip() for name, value in changes.items())
        return ", ".join(shown) or "defaults"

    def single_changes(self, n_labels: int, depth: int) -> Iterator[Variant]:
        """Return variants that differ in one setting.

        Parameters
        ----------
        n_labels : int
        depth : int
            The depth of the tree of this variant: a smaller maximum makes it wider; 1 is one-vs-rest.
        """
        yield from (replace(self, cost=self.cost * factor) for factor in _FACTORS)
        yield from (replace(self, positive_cost=factor) for factor in _FACTORS)
        yield from (replace(self, clusters=clusters) for clusters in _CLUSTERS if clusters < n_labels)
        if depth > 1:
            yield replace(self, trees=_TREES)
        yield from (replace(self, max_depth=smaller) for smaller in sorted({depth - 1, 1}) if smaller < depth)
        if self.ngrams is not None:
            terms = (replace(self, ngrams=ngrams, min_df=min_df) for ngrams, min_df in _TERMS)
            yield from (variant for variant in terms if variant != self)

    def combined(self, others: list[Variant]) -> Variant:
        """Return this variant with what the others change; the first that changes a setting decides."""
        changes: dict[str, Any] = {}
        for other in others:
            changes = {**other.changes(self), **changes}
        if changes.get("max_depth") == 1:  # one node, whatever the seed
            changes = {name: changes[name] for name in changes if name not in ("clusters", "trees")}
        return replace(self, **changes)


def _text(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, tuple) else f"{value:g}" if value != "" else ""
