"""The competitors, their settings and their environments."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Competitor:
    """A row of the tables."""

    name: str
    title: str
    peer: str  # the module in competitors/
    settings: str  # for the report
    options: dict = field(default_factory=dict)
    variant: bool = False  # runs only with --variants
    reads: bool = True  # has a reader separate from training
    cell_bytes: int = 0  # memory per (feature, label) pair
    threshold: float = 0.0  # smaller weights are set to zero


@dataclass(frozen=True)
class Environment:
    """A virtual environment: the steps to install it, and an import that must succeed."""

    name: str
    steps: tuple[tuple[str, ...], ...]
    probe: str


OURS = "labeltree"
BONSAI = {"cluster_balanced": False, "cluster_k": 100, "max_depth": 3}

COMPETITORS = {
    c.name: c
    for c in (
        Competitor(OURS, OURS, OURS, "defaults: one tree, no pruning"),
        Competitor(
            "labeltree-pruned",
            "labeltree (pruned)",
            OURS,
            "weights below 0.1 pruned",
            {"prune": 0.1},
            variant=True,
            threshold=0.1,
        ),
        Competitor(
            "libmultilabel", "LibMultiLabel", "libmultilabel", "defaults: one tree, no pruning, no bias"
        ),
        Competitor("pecos", "PECOS", "pecos", "defaults: weights below 0.1 pruned", threshold=0.1),
        Competitor(
            "omikuji-parabel",
            "omikuji (Parabel)",
            "omikuji",
            "defaults except one tree: balanced, weights below 0.1 pruned",
            threshold=0.1,
            reads=False,
        ),
        Competitor(
            "omikuji-bonsai",
            "omikuji (Bonsai)",
            "omikuji",
            "one tree with 100 clusters and depth 3, weights below 0.1 pruned",
            BONSAI,
            threshold=0.1,
            reads=False,
        ),
        Competitor(
            "napkinxc",
            "napkinXC",
            "napkinxc",
            "PLT, defaults: logistic loss, weights below 0.1 pruned",
            threshold=0.1,
        ),
        Competitor("labeltree-3-trees", "labeltree (3 trees)", OURS, "3 trees", {"trees": 3}, variant=True),
        Competitor(
            "libmultilabel-bias",
            "LibMultiLabel (bias)",
            "libmultilabel",
            "with a bias",
            {"options": "-s 1 -B 1"},
            variant=True,
        ),
        # Stores zeros too: 12 bytes per cell during training, and 8 for the resulting matrix.
        Competitor(
            "pecos-unpruned",
            "PECOS (unpruned)",
            "pecos",
            "no pruning",
            {"threshold": 0.0},
            variant=True,
            cell_bytes=20,
        ),
        Competitor(
            "omikuji-bonsai-unpruned",
            "omikuji (Bonsai, unpruned)",
            "omikuji",
            "as omikuji-bonsai, without pruning",
            {**BONSAI, "linear_weight_threshold": 0.0},
            variant=True,
            reads=False,
        ),
    )
}
PEERS = tuple(dict.fromkeys(c.peer for c in COMPETITORS.values() if c.peer != OURS))
VARIANTS = tuple(c.name for c in COMPETITORS.values() if c.variant)

_PEERS = Environment(
    "peers",
    (
        ("numpy<2",),
        ("torch==2.13.0",),  # first and alone: a later step would choose a build of several GB
        ("libpecos==1.2.8", "omikuji==0.5.2", "napkinxc==0.7.2", "scikit-learn"),
    ),
    "import pecos.xmc.xlinear.model, omikuji, napkinxc.models",
)
ENVIRONMENTS = {
    "libmultilabel": Environment(
        "libmultilabel", (("libmultilabel==0.10.0",),), "import libmultilabel.linear"
    ),
    "pecos": _PEERS,
    "omikuji": _PEERS,
    "napkinxc": _PEERS,
}


def is_ours(name):
    """Return True for a row of labeltree, with any settings."""
    return name in COMPETITORS and COMPETITORS[name].peer == OURS


def title_of(name):
    """Return the name to show for a competitor."""
    return COMPETITORS[name].title if name in COMPETITORS else name


def choose(peers, variants):
    """Return the competitors in the order in which they run: labeltree, then the chosen peers."""
    return [
        c
        for c in COMPETITORS.values()
        if c.name in variants or (not c.variant and (c.peer == OURS or c.peer in peers))
    ]
