"""A candidate: settings that are tried together, and the candidates next to it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from labeltree.settings import TreeSettings

# What is tried instead of the default, one setting at a time: the most informative first.
_COSTS = (0.5, 2.0)
_POSITIVE_COSTS = (0.5, 2.0)
_CLUSTERS = (32, 250)
_TERMS = (((1, 1), 2), ((1, 2), 2), ((1, 2), 5))  # n-grams and min_df
# How much further a setting goes after a step that helped.
_FURTHER = 2.0


@dataclass(frozen=True)
class Candidate:
    """Settings that decide how well a tree predicts; trees, pruning and score are found for each.

    Attributes
    ----------
    cost, clusters, max_depth, positive_cost
        As in `TreeSettings` and `SolverSettings`.
    ngrams : tuple of int or None
        As in `TextSettings`; None if the data is not text, or if it is given by the user.
    min_df : int or None
        Likewise.
    """

    cost: float
    clusters: int = TreeSettings.clusters
    max_depth: int = TreeSettings.max_depth
    positive_cost: float = 1.0
    ngrams: tuple[int, int] | None = None
    min_df: int | None = None

    @property
    def max_cost(self) -> float:
        """As in `SolverSettings`, for rows of length 1: the default, whatever the cost at the root."""
        return max(1.0, self.cost)

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Candidate:
        """Return the candidate that `to_dict` described."""
        known = dict(content)
        if known.get("ngrams") is not None:
            known["ngrams"] = tuple(known["ngrams"])
        return cls(**known)

    def to_dict(self) -> dict[str, Any]:
        """Return the settings of the candidate, without those that are not set."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    def changes(self, other: Candidate) -> dict[str, Any]:
        """Return the settings of this candidate that another one does not have."""
        return {
            item.name: getattr(self, item.name)
            for item in fields(self)
            if getattr(self, item.name) != getattr(other, item.name)
        }

    def describe(self, other: Candidate) -> str:
        """Describe how the candidate differs from another one, such as "cost 2, clusters 32"."""
        changes = self.changes(other)
        return ", ".join(f"{name} {_shown(value)}" for name, value in changes.items()) or "defaults"

    def combined(self, *others: Candidate) -> Candidate:
        """Return this candidate with what the others change; the first that changes a setting decides."""
        changes: dict[str, Any] = {}
        for other in others:
            changes = {**other.changes(self), **changes}
        return replace(self, **changes)

    def single_changes(self, n_labels: int, depth: int) -> Iterator[Candidate]:
        """Return candidates that differ in one setting, for data with so many labels.

        Parameters
        ----------
        n_labels : int
        depth : int
            The depth of the tree of this candidate, 0 if unknown: a smaller maximum makes the tree wider.
        """
        yield from (replace(self, cost=self.cost * factor) for factor in _COSTS)
        yield from (replace(self, positive_cost=self.positive_cost * factor) for factor in _POSITIVE_COSTS)
        yield from (replace(self, clusters=k) for k in _CLUSTERS if k != self.clusters and k < n_labels)
        if depth > 2:
            yield replace(self, max_depth=depth - 1)
        for ngrams, min_df in _TERMS if self.ngrams is not None else ():
            changed = replace(self, ngrams=ngrams, min_df=min_df)
            if changed != self:
                yield changed

    def added(self, other: Candidate, start: Candidate) -> Candidate:
        """Return this candidate with what another one changes against the start, and this one does not."""
        mine = self.changes(start)
        return replace(
            self, **{name: value for name, value in other.changes(start).items() if name not in mine}
        )

    def further(self, start: Candidate) -> Iterator[Candidate]:
        """Return candidates that go one step further in what this one changes against another."""
        for name in ("cost", "positive_cost", "clusters"):
            mine, before = getattr(self, name), getattr(start, name)
            if mine != before:
                step = _FURTHER if mine > before else 1 / _FURTHER
                value = max(2, round(mine * step)) if name == "clusters" else mine * step
                yield replace(self, **{name: value})
                between: Any = (mine * before) ** 0.5
                between = round(between) if name == "clusters" else float(f"{between:.3g}")
                yield replace(self, **{name: between})


def _shown(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, tuple) else f"{value:g}"
