"""Who takes part, with which settings, in which environment."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Competitor:
    """A row of the tables."""

    name: str
    peer: str  # the module in competitors/
    settings: str  # in words
    options: dict = field(default_factory=dict)
    variant: bool = False  # only run when asked for
    reads: bool = True  # has a reader of its own, apart from training
    cell_bytes: int = 0  # memory that it needs for each pair of a feature and a label


@dataclass(frozen=True)
class Environment:
    """A virtual environment: what to install, step by step, and what must then be importable."""

    name: str
    steps: tuple[tuple[str, ...], ...]
    probe: str


OURS = "labeltree"
BONSAI = {"cluster_balanced": False, "cluster_k": 100, "max_depth": 3}

COMPETITORS = {
    c.name: c
    for c in (
        Competitor(OURS, OURS, "defaults: one tree, nothing pruned"),
        Competitor("libmultilabel", "libmultilabel", "defaults: one tree, nothing pruned, no bias"),
        Competitor("pecos", "pecos", "defaults: weights below 0.1 pruned"),
        Competitor(
            "omikuji-parabel",
            "omikuji",
            "defaults, but one tree: balanced, weights below 0.1 pruned",
            reads=False,
        ),
        Competitor(
            "omikuji-bonsai",
            "omikuji",
            "one tree of 100 clusters and depth 3, weights below 0.1 pruned",
            BONSAI,
            reads=False,
        ),
        Competitor("napkinxc", "napkinxc", "PLT, defaults: logistic loss, weights below 0.1 pruned"),
        Competitor("labeltree-3-trees", OURS, "three trees", {"trees": 3}, variant=True),
        Competitor(
            "libmultilabel-bias", "libmultilabel", "with a bias", {"options": "-s 1 -B 1"}, variant=True
        ),
        # Keeps zeros too: 12 bytes a cell while it trains, and 8 for the matrix that it makes of them.
        Competitor("pecos-unpruned", "pecos", "nothing pruned", {"threshold": 0.0}, True, cell_bytes=20),
        Competitor(
            "omikuji-bonsai-unpruned",
            "omikuji",
            "as omikuji-bonsai, nothing pruned",
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
        ("torch==2.13.0",),  # first and alone: a later step would choose a build of several gigabytes
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
    """Whether a row is labeltree's, with whatever settings."""
    return name in COMPETITORS and COMPETITORS[name].peer == OURS


def choose(peers, variants):
    """Competitors in the order in which they run: labeltree, then those of the peers that are asked for."""
    return [
        c
        for c in COMPETITORS.values()
        if c.name in variants or (not c.variant and (c.peer == OURS or c.peer in peers))
    ]
