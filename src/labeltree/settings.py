"""Settings: how trees are built, how classifiers are trained, and how labels are searched for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, cast

from labeltree.base import limits
from labeltree.base.limits import AUTO
from labeltree.base.options import ReadingOptions
from labeltree.errors import InputError

# The help of the command line reads these settings: it starts faster without NumPy.
if TYPE_CHECKING:
    from sklearn.feature_extraction.text import TfidfVectorizer


def _given_tree(value: Any) -> Any:
    """Return the value, or None if it cannot be a tree; whether its labels match is checked later."""
    nested = isinstance(value, Sequence) and not isinstance(value, str | bytes)
    return value if nested or hasattr(value, "child_ptr") or hasattr(value, "to_tree") else None


DEFAULT_TOP = 5
DEFAULT_BEAM = 10
MAX_ACCEPTED = 100  # labels of a row: thresholds are chosen among the best
DEFAULT_SHARE = 0.1  # of the rows, to validate on
DEFAULT_RANKS = (1, 3, 5)  # k of the metrics
DEFAULT_WORDS = 5  # for and against each step of an explanation

# What to do about a model that is too large, whether to build, to train or to store: fewer clusters need less
# memory, and deeper trees have fewer weights. If max_depth cuts the tree, its wide leaves need more again.
SMALLER_MODEL = "use fewer {clusters} with a larger {max_depth}"

TREE_LIMITS: dict[str, limits.Limit] = {
    "clusters": limits.CLUSTERS,
    "max_depth": limits.MAX_DEPTH,
    "trees": limits.TREES,
    "seed": limits.SEED,
    "tree": limits.Optional(limits.Value("a LabelTree or nested lists of labels", _given_tree)),
}
SOLVER_LIMITS: dict[str, limits.Limit] = {
    "loss": limits.LOSS,
    "cost": limits.Optional(limits.COST),
    "max_cost": limits.Optional(limits.COST),
    "positive_cost": limits.PerDepth(limits.Number(1e-6, 1e6)),
    "tolerance": limits.TOLERANCE,
    "max_iterations": limits.Whole(1),
    "bias": limits.Number(0.0, limits.LARGEST_VALUE),
    "hard_negatives": limits.Whole(0),
    "foreign_cost": limits.Number(1e-6, 1e6),
    "seed": limits.SEED,
}
SCORE_LIMITS: dict[str, limits.Limit] = {
    "function": limits.SCORE,
    "scale": limits.SCORE_SCALE,
    "path_weight": limits.PATH_WEIGHT,
}
STORAGE_LIMITS: dict[str, limits.Limit] = {
    "weights": limits.Optional(limits.WEIGHTS),
    "prune": limits.Optional(limits.PRUNE),
}
TRAINING_LIMITS = {**TREE_LIMITS, **SOLVER_LIMITS, **STORAGE_LIMITS}


@dataclass(frozen=True)
class ScoreSettings:
    """How the margin of a child and the score of its parent become its score: a factor times their power.

    Parameters
    ----------
    function : {"sigmoid", "hinge2", "hinge3"}
        For a margin s: sigmoid(a s) with the scale a, or exp(-max(0, 1 - s)^p) with p = 2 or 3.
    scale : float, default 3
        The scale a of the sigmoid; the other functions ignore it. Margins are around -1 and 1: by default,
        their sigmoid covers most of (0, 1).
    path_weight : float, default 1
        The power of the parent's score, at most 1 (gamma). With hard negatives, margins near the leaves say
        more than those above them, and a smaller weight of the path ranks better.
    """

    function: str = "sigmoid"
    scale: float = 3.0
    path_weight: float = 1.0

    def __post_init__(self) -> None:
        limits.check_fields(self, SCORE_LIMITS)

    @property
    def values(self) -> tuple[str, float, float]:
        """All fields, as kernels take them."""
        return self.function, self.scale, self.path_weight

    def replace(self, function: str | None, scale: float | None) -> ScoreSettings:
        """Return these settings with another function, another scale, or both; None keeps what it is.

        The scale belongs to the function: another function begins with the default scale, and a scale
        without a function is that of the sigmoid.
        """
        if function is None and scale is None:
            return self
        limits.checked("score", function, limits.Optional(limits.SCORE))
        limits.checked("score_scale", scale, limits.Optional(limits.SCORE_SCALE))
        function = function or (self.function if scale is None else ScoreSettings.function)
        if scale is None:
            scale = self.scale if function == self.function else ScoreSettings.scale
        return ScoreSettings(function, scale, self.path_weight)


# With hard negatives, the product of all scores of a path ranks worse than without them.
HARD_PATH_WEIGHT = 0.75


def stored_score(function: str, scale: float | None, hard_negatives: int) -> ScoreSettings | Literal["auto"]:
    """Return the score that a model is to store; "auto" if neither function nor scale is given."""
    if function == AUTO and scale is None:
        return AUTO
    default = ScoreSettings(path_weight=HARD_PATH_WEIGHT if hard_negatives else 1.0)
    return default.replace(None if function == AUTO else function, scale)


@dataclass(frozen=True)
class StorageSettings:
    """How the weights of a model are stored.

    Parameters
    ----------
    weights : {"float32", "float16", "int8"}, optional
        Type of the stored weights; float16 and int8 have one scale per child. Default: "float32", or "int8"
        with ``prune``.
    prune : float, optional
        Drop weights with a smaller absolute value, and store the others as lists of int8 per feature. 0 drops
        only weights that round to zero. The other weights of each child are scaled to keep their norm. Bias
        weights are kept. Default: store all weights.
    """

    weights: str | None = None
    prune: float | None = None

    def __post_init__(self) -> None:
        limits.check_fields(self, STORAGE_LIMITS)
        if self.prune is not None and self.weights not in (None, "int8"):
            what = f"pruned weights are stored as int8, not as {self.weights}"
            raise InputError(what, hint="remove {prune} or {weights}")

    @property
    def codec(self) -> str:
        """The codec of the blocks: the type of the weights, or "sparse"."""
        return "sparse" if self.prune is not None else self.weights or "float32"

    @property
    def weight_type(self) -> str:
        """The type of the stored weights."""
        return "int8" if self.prune is not None else self.weights or "float32"


@dataclass(frozen=True, eq=False)
class TreeSettings:
    """How the trees of a model are built: by K-means, or given.

    Parameters
    ----------
    clusters : int, default 100
        Number of clusters that a node is split into (K).
    max_depth : int, default 6
        Maximum depth of a label (d_max, counted as in the paper). 1 is one-vs-rest.
    trees : int, default 1
        Number of trees, built with the seeds ``seed``, ``seed + 1``, ...
    seed : int, default 0
        Random seed; the same seed gives the same result.
    tree : LabelTree, nested lists of labels or TreeFile, optional
        A tree to use instead of clustering; ``clusters`` and ``max_depth`` are then ignored.
    """

    clusters: int = 100
    max_depth: int = 6
    trees: int = 1
    seed: int = 0
    tree: Any = None

    def __post_init__(self) -> None:
        limits.check_fields(self, TREE_LIMITS)
        if self.tree is not None and self.trees > 1:
            what, hint = f"a tree cannot be combined with trees={self.trees}", "remove {tree} or {trees}"
            raise InputError(what, hint=hint)

    def notes(self) -> dict[str, Any]:
        """Return what a model's manifest keeps about how its trees were built."""
        if self.tree is None:
            return {"clusters": self.clusters, "max_depth": self.max_depth}
        return self.tree.notes() if hasattr(self.tree, "notes") else {}


@dataclass(frozen=True)
class SolverSettings:
    """How each binary problem is solved: the minimum of w'w / 2 + C * (sum of losses).

    Parameters
    ----------
    loss : {"squared_hinge", "hinge", "logistic"}
        Loss function.
    cost : float, optional
        Weight of the losses (C), as in LIBLINEAR. Default: from 0.5 to 2, depending on the ratio of
        features to instances; divided by the mean squared norm if instances do not have length 1.
    max_cost : float, optional
        Largest cost in smaller nodes: in a node with a fraction p of all instances, the cost is multiplied by
        p^-0.2, up to this. Default: ``cost`` if it is given, so that all nodes have the same cost;
        otherwise 1, or ``cost`` if that is larger, with the same divisor.
    positive_cost : float or sequence of float, default 1
        Factor of the cost of positive instances; or one per depth of the node, the last for all greater
        depths.
    tolerance : float, default 0.005
        Relative duality gap of a solution: every objective exceeds its optimum by at most this
        fraction. A problem that does not reach it is counted as not converged.
    max_iterations : int, default 1000
        Maximum number of passes over the instances of a node. If it is 300 or more, slow problems with a
        smooth loss are finished by Newton's method, so that practically all converge.
    bias : float, default 1
        Value of a constant feature added to every instance; 0 for none.
    hard_negatives : int, default 0
        How many of the nodes that score best for an instance train on it as a negative, at each level of the
        tree (B). They learn to reject what the search sends to them; the size of the model stays the same.
    foreign_cost : float, default 0.2
        Factor of the cost of these instances (F).
    seed : int, default 0
        Seed of the order in which instances are visited.
    """

    loss: str = "squared_hinge"
    cost: float | None = None
    max_cost: float | None = None
    positive_cost: float | tuple[float, ...] = 1.0
    tolerance: float = 0.005
    max_iterations: int = 1000
    bias: float = 1.0
    hard_negatives: int = 0
    foreign_cost: float = 0.2
    seed: int = 0

    def __post_init__(self) -> None:
        limits.check_fields(self, SOLVER_LIMITS)
        if self.cost is not None and self.max_cost is not None and self.max_cost < self.cost:
            what = f"the largest cost is {self.max_cost:g}, less than the cost, {self.cost:g}"
            raise InputError(what, hint="raise {max_cost}, or remove it")

    @property
    def precise(self) -> bool:
        """Whether the solver uses double precision: below this tolerance, float32 gaps are noise."""
        return self.tolerance < 1e-4


@dataclass(frozen=True, eq=False)
class ModelSettings:
    """All settings that the bytes of a model depend on, besides its data.

    Parameters
    ----------
    score : ScoreSettings or "auto"
        How the model turns margins into scores; "auto" chooses it on the training data.
    normalize : bool, default True
        Scale every row of features to length 1, for training and for prediction.
    """

    tree: TreeSettings = field(default_factory=TreeSettings)
    solver: SolverSettings = field(default_factory=SolverSettings)
    storage: StorageSettings = field(default_factory=StorageSettings)
    score: ScoreSettings | Literal["auto"] = AUTO
    normalize: bool = True

    def __post_init__(self) -> None:
        limits.checked("normalize", self.normalize, limits.FLAG)
        if self.score != AUTO and not isinstance(self.score, ScoreSettings):
            raise InputError(f"score is {self.score!r}, expected ScoreSettings or 'auto'")

    @classmethod
    def of(
        cls, values: Mapping[str, Any], score: ScoreSettings | Literal["auto"] = AUTO, normalize: bool = True
    ) -> ModelSettings:
        """Sort values by the settings that have fields of their names; the seed is that of all."""
        return cls(
            TreeSettings(**_named(TreeSettings, values)),
            SolverSettings(**_named(SolverSettings, values)),
            StorageSettings(**_named(StorageSettings, values)),
            score,
            normalize,
        )


def _named(kind: Any, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values that have the name of a field."""
    return {item.name: values[item.name] for item in fields(kind) if item.name in values}


_WORD_PATTERN = r"\b\w\w+\b"  # two or more letters, digits or underscores

TEXT_LIMITS: dict[str, limits.Limit] = {
    "analyzer": limits.OneOf(("word", "char", "char_wb")),
    "ngrams": limits.Span(limits.Whole(1)),
    "min_df": limits.MIN_DF,
    "max_features": limits.Optional(limits.Whole(1)),
    "sublinear": limits.FLAG,
    "stop_words": limits.Optional(limits.STOP_WORDS),
    "lowercase": limits.FLAG,
    "strip_html": limits.FLAG,
    "unicode": limits.Optional(limits.UNICODE),
}
CLEANING = ("strip_html", "unicode")  # a model stores them only where they are not the defaults


@dataclass(frozen=True)
class TextSettings:
    """How a document becomes features. The options mean the same as those of scikit-learn's TfidfVectorizer.

    Parameters
    ----------
    analyzer : {"word", "char", "char_wb"}
        Terms are words of two or more characters, substrings, or substrings within words.
    ngrams : tuple of int, default (1, 1)
        Minimum and maximum number of words or characters in a term.
    min_df : int, default 1
        Leave out terms that occur in fewer documents.
    max_features : int, optional
        Keep only this many terms, the most frequent ones.
    sublinear : bool, default True
        Count a term that occurs n times in a document as 1 + log(n) instead of n. Unlike in scikit-learn,
        this is the default, because it gives better rankings.
    stop_words : "english" or sequence of str, optional
        Words to leave out. "english" is the list of the installed scikit-learn; the words are stored.
    lowercase : bool, default True
        Lowercase the text.
    strip_html : bool, default False
        Remove HTML: tags become spaces, scripts, styles and comments are dropped, and character references
        such as "&amp;" are replaced.
    unicode : "nfkc", optional
        Normalize characters first: composed and decomposed accents, full-width letters and ligatures become
        the same.
    """

    analyzer: str = "word"
    ngrams: tuple[int, int] = (1, 1)
    min_df: int = 1
    max_features: int | None = None
    sublinear: bool = True
    stop_words: str | Sequence[str] | None = None
    lowercase: bool = True
    strip_html: bool = False
    unicode: Literal["nfkc"] | None = None

    def __post_init__(self) -> None:
        limits.check_fields(self, TEXT_LIMITS)
        if self.stop_words is not None and self.analyzer != "word":
            what, hint = "stop words require the word analyzer", "remove {stop_words}, or use {analyzer}"
            raise InputError(what, hint=hint, parameters={"stop_words": None, "analyzer": "word"})

    def resolved(self) -> TextSettings:
        """Return the settings with the stop words themselves, which vary between versions of scikit-learn."""
        if self.stop_words != "english":
            return self
        from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

        return replace(self, stop_words=tuple(sorted(ENGLISH_STOP_WORDS)))

    def stored(self) -> dict[str, Any]:
        """Return what a model stores."""
        return {name: value for name, value in asdict(self).items() if value or name not in CLEANING}

    def cleaner(self, *, lowercase: bool = False) -> Callable[[str], str] | None:
        """Return the function that cleans a document before it is split; None if there is nothing to do."""
        if not self.strip_html and self.unicode is None:
            return None
        from labeltree.base.cleaning import clean

        return partial(clean, is_html=self.strip_html, nfkc=self.unicode == "nfkc", lowercase=lowercase)

    def vectorizer(self) -> TfidfVectorizer:
        """Return an unfitted TfidfVectorizer with these options."""
        from sklearn.feature_extraction.text import TfidfVectorizer

        words = self.stop_words
        return TfidfVectorizer(
            analyzer=self.analyzer,
            ngram_range=self.ngrams,
            min_df=self.min_df,
            max_features=self.max_features,
            sublinear_tf=self.sublinear,
            stop_words=words if words is None or isinstance(words, str) else list(words),
            lowercase=self.lowercase,
            preprocessor=self.cleaner(lowercase=self.lowercase),  # scikit-learn leaves lowercasing to it
            token_pattern=_WORD_PATTERN if self.analyzer == "word" else None,
        )


def split_options(options: Mapping[str, Any]) -> tuple[ReadingOptions, TextSettings | None]:
    """Return how data is read, and the settings of text; None if there are none among the options."""
    text = _named(TextSettings, options)
    reading = {name: options[name] for name in ReadingOptions.__annotations__ if name in options}
    return cast(ReadingOptions, reading), TextSettings(**text) if text else None
