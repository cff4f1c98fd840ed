"""Independent references: Philox on Python integers, Algorithm 1 line by line, expected errors."""

import numpy as np

MASK = 0xFFFFFFFF


def philox(counter, key):
    """Philox-4x32-10 on Python integers."""
    c, k = list(counter), list(key)
    for _ in range(10):
        p0, p1 = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(p1 >> 32) ^ c[1] ^ k[0], p1 & MASK, (p0 >> 32) ^ c[3] ^ k[1], p0 & MASK]
        k = [(k[0] + 0x9E3779B9) & MASK, (k[1] + 0xBB67AE85) & MASK]
    return c


def draw64(seed, stream, start, walk, slot):
    """The 64 bits of a slot: 0 is the walk's length, t its t-th step."""
    counter = (slot // 2, walk, start & MASK, ((start >> 32) & 0xFFFF) << 16 | stream)
    words = philox(counter, (seed & MASK, seed >> 32))
    high, low = words[2 * (slot % 2) : 2 * (slot % 2) + 2]
    return high << 32 | low


def alias_slots(weights):
    """Vose's algorithm, entries in order: (thresholds out of 2⁶⁴, None for always; aliases)."""
    n, total = len(weights), 0.0
    for w in weights:
        total += w
    share = [w / total * n for w in weights]
    thresholds, aliases = [None] * n, list(range(n))
    small, large = [i for i in range(n) if share[i] < 1], [i for i in range(n) if share[i] >= 1]
    while small and large:
        poor, rich = small.pop(), large[-1]
        thresholds[poor], aliases[poor] = int(share[poor] * 2.0**64), rich
        share[rich] -= 1 - share[poor]
        if share[rich] < 1:
            small.append(large.pop())
    return thresholds, aliases


def choose(bits, weights, uniform):
    """The entry that 64 bits select: bits · degree = slot · 2⁶⁴ + rest."""
    slot, rest = divmod(bits * len(weights), 2**64)
    if uniform:
        return slot
    thresholds, aliases = alias_slots(weights)
    return slot if thresholds[slot] is None or rest < thresholds[slot] else aliases[slot]


def shared_draw(seed, stream, start, walk, slot, shares):
    """The 64 bits of a slot where 2^share walks have a draw in common: of lengths, first, later steps."""
    share = shares[min(slot, 2)]
    k = walk % 2**share
    bits = draw64(seed, stream, start, walk - k, slot)
    if share == 0:
        return bits
    if slot == 1:
        k = int(f"{k:0{share}b}"[::-1], 2)
    elif slot > 1:
        k = k * (2 * (bits % 8) + 1) % 2**share
    return (bits + k * 2 ** (64 - share)) % 2**64


def geometric(p_halt):
    return [int((1 - p_halt) ** k * 2.0**64) for k in range(1, 400)]


def algorithm_one(
    A, M, start, n_walks, thresholds, *, seed=0, stream=0, transition="weights", shares=(0, 0, 0)
):
    """Algorithm 1 for one start node: a list of walks, each a list of (node, length, load).

    A is the raw matrix that gives the transition law and M the matrix whose entries are multiplied. A walk
    goes on to its k-th step if its draw is below thresholds[k − 1].
    """
    walks = []
    uniform = transition == "uniform" or np.all(A[A != 0] == 1)
    for w in range(n_walks):
        load, current_node, terminated, walk_length = 1.0, start, False, 0
        t = shared_draw(seed, stream, start, w, 0, shares)
        walk = []
        while not terminated:
            survival = thresholds[walk_length - 1] / 2.0**64 if walk_length else 1.0
            walk.append((current_node, walk_length, load / survival))
            walk_length += 1
            terminated = walk_length > len(thresholds) or t >= thresholds[walk_length - 1]
            neighbors = np.flatnonzero(A[current_node])
            if terminated or neighbors.size == 0:
                break
            weights = np.abs(A[current_node, neighbors])
            choice = choose(
                shared_draw(seed, stream, start, w, walk_length, shares), weights.tolist(), uniform
            )
            probability = 1 / neighbors.size if uniform else weights[choice] / weights.sum()
            new_node = int(neighbors[choice])
            load *= M[current_node, new_node] / probability
            current_node = new_node
        walks.append(walk)
    return walks


def exact_levels(A, M, start, hops, transition="weights"):
    """The levels 1 … hops around a node: dicts from nodes, in the order met, to (M^l, P^l)."""
    P = transition_matrix(A, transition)
    levels = [{start: (1.0, 1.0)}]
    for _ in range(hops):
        level = {}
        for node, (load, chance) in levels[-1].items():
            for other in np.flatnonzero(A[node]).tolist():
                old = level.get(other, (0.0, 0.0))
                level[other] = (old[0] + load * M[node, other], old[1] + chance * P[node, other])
        levels.append(level)
    return levels[1:]


def whole_head(A, M, start, sampler):
    """The entries (node, length, load) of a head of all paths, its edges, and the places where it ends.

    A place is (node, hop, load, weight in the choice of a place, thresholds of the steps from there).
    """
    levels = [{start: (1.0, 1.0)}, *exact_levels(A, M, start, sampler.head, sampler.transition)]
    entries = [(node, k, x[0]) for k, level in enumerate(levels) if k for node, x in level.items()]
    edges = sum(np.count_nonzero(A[node]) for level in levels[:-1] for node in level)
    law = [int(x) for x in sampler.thresholds()]
    return entries, edges, [(node, sampler.head, *x, law) for node, x in levels[-1].items()]


def pruned_head(A, M, start, sampler, first):
    """The same for a head that follows edges where that saves more than the threshold for each."""
    P, laws = transition_matrix(A, sampler.transition), [[int(x) for x in law] for _, law in sampler.laws()]
    worths, weights = np.transpose([_worth(np.array(sampler.sizes[h:]), law) for h, law in enumerate(laws)])
    level, entries, edges, places = {start: (1.0, 1.0)}, [], 0, []
    for hop in range(sampler.head + 1):
        if hop:
            entries += [(node, hop, load) for node, (load, _) in level.items()]
        following = {}
        for node, (load, chance) in level.items():
            neighbors = np.flatnonzero(A[node]).tolist()
            gain = max(worths[hop] - worths[hop + 1], 0.0) if hop < sampler.head else -1.0
            if first * chance * gain < sampler.threshold * len(neighbors) or gain < 0:
                if weights[hop] > 0 and (neighbors or hop):
                    places.append((node, hop, load, weights[hop] * chance, laws[hop]))
                continue
            edges += len(neighbors)
            for other in neighbors:
                old = following.get(other, (0.0, 0.0))
                following[other] = (old[0] + load * M[node, other], old[1] + chance * P[node, other])
        level = following
    return entries, edges, places


def _worth(sizes, thresholds):
    """The roots of variance times steps, and of variance over steps, of walks with a law."""
    law = np.array(thresholds) / 2.0**64
    variance, steps = (sizes[1 : 1 + law.size] ** 2 / law[: sizes.size - 1]).sum(), law.sum()
    return (np.sqrt(variance * steps), np.sqrt(variance / steps)) if sizes[1:].any() else (0.0, 0.0)


def headed_walks(
    A, M, start, n_walks, places, *, seed=0, stream=0, transition="weights", shares=(0, 0, 0), share=1.0
):
    """Walks that begin at places where a head ends: as ``algorithm_one``, each opened by (start, 0, 1)."""
    uniform = transition == "uniform" or np.all(A[A != 0] == 1)
    total, walks = sum(place[3] for place in places), []
    for w in range(n_walks):
        walk, steps = [(start, 0, share)], 0
        t, pick = (shared_draw(seed, stream, start, w, slot, shares) for slot in (0, 1))
        reached, thresholds = 0.0, []
        for node, hop, load, chance, thresholds in places:  # noqa: B007
            reached += chance
            if pick < reached / total * 2.0**64:
                break
        if places:
            load *= share * total / chance
        while steps < len(thresholds) and t < thresholds[steps] and A[node].any():
            steps += 1
            neighbors = np.flatnonzero(A[node])
            weights = np.abs(A[node, neighbors])
            bits = shared_draw(seed, stream, start, w, steps + 1, shares)
            choice = choose(bits, weights.tolist(), uniform)
            probability = 1 / neighbors.size if uniform else weights[choice] / weights.sum()
            load *= M[node, neighbors[choice]] / probability
            node = int(neighbors[choice])
            walk.append((node, hop + steps, load / (thresholds[steps - 1] / 2.0**64)))
        walks.append(walk)
    return walks


def unequal_number(sampler, first, places, n_walks):
    """The number of walks from a node, its share of one walk, and how many walks share draws."""
    bits = sampler.group.bit_length() - 1
    value, shift = float(sampler.unevenness * first * sum(place[3] for place in places)), 0
    if sampler.unevenness:
        shift = -bits
        if value > 0:
            exponent = int(np.floor(np.log2(value)))
            shift = min(max(exponent + int(value / 2.0**exponent >= np.sqrt(2)), -bits), 4)
    return round(n_walks * 2.0**shift), 2.0**-shift, shift, [min(max(bits + shift, 0), 4)] * 3


def transition_matrix(A, transition="weights"):
    weights = (A != 0).astype(float) if transition == "uniform" else np.abs(A)
    totals = weights.sum(axis=1, keepdims=True)
    return np.divide(weights, totals, out=np.zeros_like(weights), where=totals > 0)


def second_moments(M, P, f, survival):
    """S_i = E[φ φᵀ] of a single walk from i, for every i: shape (n, n, n)."""
    n, length = len(M), len(f)
    Q = np.divide(M**2, P, out=np.zeros_like(M), where=P > 0)
    powers = [np.eye(n)]
    for _ in range(length - 1):
        powers.append(powers[-1] @ M)
    S = np.zeros((n, n, n))
    Ql = np.eye(n)
    for step in range(length):
        X = sum((f[step + k] * powers[k] for k in range(1, length - step)), np.zeros((n, n)))
        R = Ql / survival[step]
        S += np.einsum("iu,uv->iuv", R * f[step] ** 2, np.eye(n))
        S += f[step] * (np.einsum("iu,uv->iuv", R, X) + np.einsum("iv,vu->iuv", R, X))
        Ql = Ql @ Q
    return S


def mean_features(M, f):
    total, power = np.zeros_like(M), np.eye(len(M))
    for value in f:
        total, power = total + value * power, power @ M
    return total


def expected_squared_error(M, P, f, survival, n_walks):
    """E‖K̂ − K‖²_F / ‖K‖²_F for independent walks on both sides; the right side walks Mᵀ."""
    S, mu = second_moments(M, P, f, survival), mean_features(M, f)
    left = S / n_walks + (1 - 1 / n_walks) * np.einsum("iu,iv->iuv", mu, mu)
    right = left
    K = mu @ mu
    if not np.allclose(M, M.T):
        raise ValueError("give both sides with expected_squared_error_two_sided")
    return _relative(left, right, K)


def expected_squared_error_two_sided(M, P_left, P_right, f, survival, n_walks):
    """The same for a directed M: rows walk M with P_left, columns Mᵀ with P_right."""
    moments = []
    for matrix, P in ((M, P_left), (M.T, P_right)):
        S, mu = second_moments(matrix, P, f, survival), mean_features(matrix, f)
        moments.append(S / n_walks + (1 - 1 / n_walks) * np.einsum("iu,iv->iuv", mu, mu))
    mu = mean_features(M, f)
    return _relative(*moments, mu @ mu)


def _relative(left, right, K):
    n = len(K)
    second = left.reshape(n, -1) @ right.reshape(n, -1).T
    return (second - K**2).sum() / (K**2).sum()


def shared_diagonal_bias(M, P, f, survival, n_walks):
    S, mu = second_moments(M, P, f, survival), mean_features(M, f)
    return (np.einsum("iuu->i", S) - (mu**2).sum(axis=1)) / n_walks
