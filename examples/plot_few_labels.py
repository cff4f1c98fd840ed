"""
Few labels on a citation graph
==============================

Papers cite papers of their own topic more than others. If the topics of a few papers are known, what are
those of all the others? No text is read, only citations. ``NodeRidgeClassifier`` is compared with label
propagation and with a linear model on the rows of the adjacency matrix.
"""

# %%
# The graph is generated: seven topics, 2100 papers, and degrees with a heavy tail as in real citation
# graphs, where a few papers are cited by very many. Three of four citations are within a topic.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import normalize

import walkernel as wk

rng = np.random.default_rng(0)
n, n_topics, n_citations = 2100, 7, 5000
topic = rng.integers(n_topics, size=n)
fame = 1 + rng.pareto(1.8, size=n)
citing = rng.choice(n, n_citations, p=fame / fame.sum())
of_topic = [np.where(topic == t, fame, 0) / fame[topic == t].sum() for t in range(n_topics)]
same = np.array([rng.choice(n, p=of_topic[topic[paper]]) for paper in citing])
cited = np.where(rng.uniform(size=n_citations) < 0.7, same, rng.choice(n, n_citations, p=fame / fame.sum()))
pairs = np.unique(np.sort(np.column_stack([citing, cited])[citing != cited]), axis=0)
papers = wk.Graph.from_edges(pairs, n_nodes=n).largest_component()
graph, topic = wk.Graph.from_scipy(papers.to_scipy()), topic[list(papers.labels)]
within = np.mean(topic[graph.row_indices()] == topic[graph.indices])
print(f"{graph}, {within:.0%} of the edges within a topic, largest degree {graph.out_degrees().max():.0f}")

# %%
# Label propagation (Zhou et al. 2004) lets known labels spread along edges until they hardly change. Its
# parameter α is given an advantage: of four values, that which turns out best is taken.
# ``NodeRidgeClassifier`` chooses kernel, width and penalty from the known labels.
S, A = graph.to_scipy("normalized"), normalize(graph.to_scipy("adjacency"))


def kernel_ridge(known):
    return wk.NodeRidgeClassifier(graph).fit(known, topic[known]).predict(range(graph.n_nodes))


def label_propagation(known):
    first, results = np.zeros((graph.n_nodes, n_topics)), []
    first[known, topic[known]] = 1
    for alpha in 0.5, 0.8, 0.95, 0.99:
        scores = first
        for _ in range(200):
            scores = alpha * (S @ scores) + (1 - alpha) * first
        results.append(scores.argmax(axis=1))
    return max(results, key=lambda labels: np.mean(labels == topic))


def adjacency_rows(known):
    return LogisticRegression(C=10, max_iter=1000).fit(A[known], topic[known]).predict(A)


# %%
# Accuracy at all papers without a label, for four random choices of labelled papers. All methods get the
# same choices.
methods = {
    "NodeRidgeClassifier": kernel_ridge,
    "label propagation": label_propagation,
    "adjacency rows": adjacency_rows,
}
counts, n_choices = [2, 5, 10, 20, 40], 4
accuracy = np.empty((len(methods), len(counts), n_choices))
for j, count in enumerate(counts):
    for k in range(n_choices):
        known = np.concatenate(
            [rng.choice(np.flatnonzero(topic == t), count, replace=False) for t in range(n_topics)]
        )
        hidden = np.setdiff1d(range(graph.n_nodes), known)
        for i, method in enumerate(methods.values()):
            accuracy[i, j, k] = np.mean(method(known)[hidden] == topic[hidden])
mean, stderr = accuracy.mean(axis=2), accuracy.std(axis=2, ddof=1) / np.sqrt(n_choices)
print("labels of each topic" + "".join(f"{count:15d}" for count in counts))
for name, own, error in zip(methods, mean, stderr, strict=True):
    print(f"{name:20s}" + "".join(f"  {a:.3f} ± {e:.3f}" for a, e in zip(own, error, strict=True)))

# %%
# The fewer labels are known, the farther one must look along the edges. Neighbours alone are not enough.
figure, axes = plt.subplots(figsize=(7, 4.6), layout="constrained")
for (name, own), error, style in zip(
    zip(methods, mean, strict=True), stderr, ("o-", "s-", "^-"), strict=True
):
    axes.errorbar(counts, own, 2 * error, fmt=style, capsize=3, label=name)
axes.axhline(1 / n_topics, color="0.5", linestyle="--", label="chance")
axes.set_xscale("log")
axes.set_xticks(counts, [str(count) for count in counts], minor=False)
axes.minorticks_off()
axes.set(ylim=(0, 1), xlabel="labelled papers of each topic", ylabel="accuracy")
axes.set_title("Topics from citations alone (bars: two standard errors)")
axes.legend(frameon=False, loc="lower right", bbox_to_anchor=(1, 0.16))
axes.grid(alpha=0.25)
plt.show()
