"""K-means, slowly: greedy k-means++ (native/cluster/seeding.h) or random labels, and its comparisons."""

import numpy as np

SEEDED_PER_CLUSTER, MAX_SEEDED, N_CANDIDATES = 10, 4096, 20
TIE = 1e-5
MASK = 2**64 - 1


def mix(z):
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 & MASK
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB & MASK
    return z ^ (z >> 31)


class Random:
    """SplitMix64 (native/common/random.h)."""

    def __init__(self, seed, stream):
        self.state = mix(seed) ^ mix(stream + 0x632BE59BD9B4E019 & MASK)

    def next(self):
        self.state = self.state + 0x9E3779B97F4A7C15 & MASK
        return mix(self.state)

    def below(self, bound):
        return (self.next() >> 32) * bound >> 32

    def fraction(self):
        return (self.next() >> 11) * 2.0**-53


def inertia(nearest, squares):
    return np.minimum(nearest, squares).sum()


def first_centroids(vectors, clusters, seed=0, stream=0):
    """Return the rows of ``vectors`` that K-means starts from."""
    random = Random(seed, stream)
    n = len(vectors)
    if n > min(SEEDED_PER_CLUSTER * clusters, MAX_SEEDED):
        order = np.arange(n)
        for k in range(clusters):
            other = k + random.below(n - k)
            order[[k, other]] = order[[other, k]]
        return order[:clusters]
    squares = ((vectors[:, None] - vectors) ** 2).sum(axis=2)
    squares[squares <= 1e-5] = 0
    seeds = [random.below(n)]
    while len(seeds) < clusters:
        nearest = squares[seeds].min(axis=0)
        total = np.cumsum(nearest)
        if total[-1] == 0:
            seeds.append(next(i for i in range(n) if i not in seeds))
            continue
        candidates = [
            int(np.searchsorted(total, random.fraction() * total[-1], "right")) for _ in range(N_CANDIDATES)
        ]
        best = candidates[0]
        for other in candidates[1:]:  # in a tie, the first one wins
            if inertia(nearest, squares[other]) < inertia(nearest, squares[best]) * (1 - TIE):
                best = other
        seeds.append(best)
    return np.array(seeds)


def rounded(values):
    """Return floats rounded to bfloat16, the upper 16 bits, ties to even."""
    bits = values.astype(np.float32).view(np.uint32)
    return (bits + 0x7FFF + (bits >> 16 & 1) & 0xFFFF0000).view(np.float32)


def twin_nearness(vectors, cluster, clusters):
    """Return v'mean - |mean|^2 / 2 of each row and cluster, whose sums are rounded for the product."""
    members = cluster[:, None] == np.arange(clusters)
    counts = members.sum(axis=0)
    sums = members.T.astype(np.float64) @ vectors
    with np.errstate(invalid="ignore", divide="ignore"):
        near = vectors @ rounded(sums).T.astype(np.float64) / counts - (sums**2).sum(axis=1) / counts**2 / 2
    return np.where(counts > 0, near, -np.inf)  # an empty cluster stays empty
