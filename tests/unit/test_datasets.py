import networkx as nx

import walkernel as wk


def test_karate_is_zacharys():
    data = wk.load_dataset("karate")
    reference = nx.karate_club_graph()
    assert set(data.graph.to_networkx().edges) == set(reference.edges)
    assert data.graph.weights is None
    assert data.labels.tolist() == [int(reference.nodes[i]["club"] != "Mr. Hi") for i in range(34)]
