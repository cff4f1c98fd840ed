"""Edge lists: every dialect, options, and the line that is wrong."""

from functools import partial

import numpy as np
import pytest

import files
import walkernel as wk
from files import refusal, same

PATH = wk.Graph.from_edges([(0, 1), (1, 2)])
WEIGHTED = wk.Graph.from_edges([(0, 1), (1, 2)], weights=[2.5, -3.0])


def dense(graph):
    return graph.to_scipy().toarray()


@pytest.fixture
def put(tmp_path):
    return partial(files.write, tmp_path)


EDGE_LISTS = {
    "plain.csv": "0,1\n1,2\n",
    "header.csv": "id_1,id_2\n0,1\n1,2\n",
    "odd-header.csv": "person,friend\n0,1\n1,2\n",
    "tabs.tsv": "0\t1\n1\t2\n",
    "spaces.txt": "  0   1\n1 2  \n",
    "mixed.edges": "0 \t1\n1\t2\n",
    "semicolons.csv": "0;1\n1;2\n",
    "spaced.csv": "0, 1\n1 ,2\n",
    "quoted.csv": '"0","1"\n"1","2"\n',
    "comments.txt": "# one\n% two\n0 1\n\n   \n#three\n 1 2\n\t% four\n",
    "only-comments-after.csv": "0,1\n1,2\n# end\n\n",
    "windows.csv": "\ufefffrom,to\r\n0,1\r\n\r\n1,2\r\n",
    "no-last-end.csv": "0,1\n1,2",
    "CAPITALS.CSV": "0,1\n1,2\n",
    "packed.csv.gz": "0,1\n1,2\n",
    "PACKED.TSV.GZ": "0\t1\n1\t2\n",
    "repeats.csv": "0,1\n1,0\n1,2\n0,1\n",
}


class TestEdgeLists:
    @pytest.mark.parametrize("name", EDGE_LISTS)
    def test_dialects(self, put, name):
        assert same(wk.load_graph(put(name, EDGE_LISTS[name])), PATH)

    @pytest.mark.parametrize(
        "text",
        ["0,1,2.5\n1,2,-3\n", "a,b,weight\n0,1,2.5\n1,2,-3e0\n", "0 1 2.5\n# x\n1 2 -3.\n"],
        ids=["plain", "header", "spaces"],
    )
    def test_weights(self, put, text):
        assert same(wk.load_graph(put("edges.txt", text)), WEIGHTED)

    @pytest.mark.parametrize(
        ("name", "text", "labels"),
        [
            ("n.csv", "Ann,Bob\nBob,Cy\n", ("Ann", "Bob", "Cy")),
            ("n.csv", "source,target\nAnn,Bob\nBob,Cy\n", ("Ann", "Bob", "Cy")),
            ("n.csv", '"Lee, Ann",Bob\nBob, Cy\n', ("Lee, Ann", "Bob", "Cy")),
            ("n.tsv", "Lee, Ann\tBob\nBob\t Cy\n", ("Lee, Ann", "Bob", "Cy")),
            ("n.txt", '"New York" Bonn\n% x\nBonn  "Ä b"\n', ("New York", "Bonn", "Ä b")),
            ("n.txt", "a\t1\n1\t2\n", ("a", "1", "2")),
        ],
        ids=["commas", "header", "quotes", "tabs", "spaces", "numbers-beside-names"],
    )
    def test_names_are_labels(self, put, name, text, labels):
        expected = wk.Graph.from_edges([labels[:2], labels[1:]])
        assert same(wk.load_graph(put(name, text)), expected)

    def test_weights_beside_names(self, put):
        graph = wk.load_graph(put("names.csv", "x,y,kg\na,b,0.5\nb,c,2\n"))
        assert graph.labels == ("a", "b", "c")
        assert dense(graph)[0, 1] == 0.5

    def test_options(self, put):
        path = put("edges.csv", "0,1\n2,1\n")
        graph = wk.load_graph(path, directed=True)
        assert graph.directed
        assert dense(graph).tolist() == [[0, 1, 0], [0, 0, 0], [0, 1, 0]]
        sparse = put("sparse.csv", "7,1000000\n1000000,9\n")
        assert wk.load_graph(sparse, relabel=True).labels == (7, 1000000, 9)
        assert wk.load_graph(put("signed.csv", "-7,3\n"), relabel=True).labels == (-7, 3)
        assert wk.load_graph(put("mixed.csv", "1,2\n2,x\n"), relabel=True).labels == ("1", "2", "x")
        message = refusal(sparse)
        assert "sparse.csv" in message
        assert "1000000 among only 3" in message
        assert "relabel=True" in message
        assert "n_nodes" not in message

    def test_many_blocks(self, put):
        """Some megabytes are read at once: edges of four parts, one of which has only comments."""
        comment = "#" + "x" * 2**21
        lines = [f"{i},{i + 1}" for i in range(500)]
        lines[250:250] = [*[comment] * 5, *[""] * 200]
        lines[100:100] = [comment, comment]
        graph = wk.load_graph(put("long.csv", "\n".join(lines)))
        assert (graph.n_nodes, graph.n_edges) == (501, 500)
        lines[600] = "1,oops"
        assert "line 601" in refusal(put("long.csv", "\n".join(lines)))

    @pytest.mark.parametrize(
        ("text", "line", "expected", "found"),
        [
            ("0,1\n1,2\n1,x\n", 3, "a whole number", "'x'"),
            ("# c\n\n0,1\n1,2.5\n", 4, "a whole number", "'2.5'"),
            ("0,1\n1,1_0\n", 2, "a whole number", "'1_0'"),
            ("0,1\n1,-2\n", 2, "an id from 0", "-2"),
            (f"0,1\n1,{2**63}\n", 2, "an id from 0", str(2**63)),
            ("0,1\n1\n", 2, "2 columns", "1"),
            ("0,1\n1,2,3\n", 2, "2 columns", "3"),
            ("0,1,1\n1,2\n", 2, "3 columns", "2"),
            ("0,1,1\n1,2,heavy\n", 2, "a finite number as the weight", "'heavy'"),
            ("0,1,1\n1,2,nan\n", 2, "a finite number as the weight", "'nan'"),
            ("0,1,1\n1,2,1e999\n", 2, "a finite number as the weight", "'1e999'"),
            ("0,1.5\n1,2\n", 1, "a whole number or a name", "'1.5'"),
            ("a,b\nc,\n", 2, "two nodes", "an empty name"),
            ("a,b,1\nc,d,x\n", 2, "a finite number as the weight", "'x'"),
            ("a b c d\n", 1, "two nodes and at most a weight", "4 columns"),
            ("alone\n", 1, "two nodes and at most a weight", "1 columns"),
            ("source,target\n", 1, "edges", "nothing but a header"),
            (b"0,1\n\xff,2\n", 2, "UTF-8 text", "the byte 0xff"),
            (b"a,b\nc,\xe4\n", 2, "UTF-8 text", "the byte 0xe4"),
        ],
    )
    @pytest.mark.parametrize("suffix", [".csv", ".csv.gz"])
    def test_malformed_lines_are_named(self, put, text, line, expected, found, suffix):
        message = refusal(put("bad" + suffix, text))
        assert f"bad{suffix}, line {line}: expected {expected}" in message
        assert f"found {found}" in message

    @pytest.mark.parametrize("text", ["", "\n\n", "# nothing\n"])
    def test_nothing_in_it(self, put, text):
        assert "expected edges, found no line of data" in refusal(put("empty.txt", text))

    @pytest.mark.parametrize("rows", [3, 20_000])
    def test_truncated_gzip_is_said_to_be_that(self, put, rows):
        rng = np.random.default_rng(0)
        path = put("cut.csv.gz", "".join(f"{a},{b}\n" for a, b in rng.integers(0, 999, (rows, 2))))
        path.write_bytes(path.read_bytes()[:-10])
        assert "cut.csv.gz: expected a whole gzip file, found a truncated one" in refusal(path)

    def test_other_damage_to_gzip(self, put):
        path = put("bad.csv.gz", "0,1\n" * 1000)
        packed = bytearray(path.read_bytes())
        packed[12] ^= 0xFF
        path.write_bytes(packed)
        assert "gzip file, found" in refusal(path)
        path.write_bytes(b"0,1\n")
        assert "expected a gzip file, found something else" in refusal(path)


@pytest.mark.parametrize(
    "text",
    [
        "0,1,inf\n1,2,2\n",
        "0,1,\n1,2,2\n",
        "0,1,0x10\n1,2,3\n",
        "0,1,1_000\n1,2,3\n",
        "ann,bob,NA\nbob,cem,2\n",
    ],
)
def test_a_malformed_first_weight_is_not_a_header(tmp_path, text):
    path = tmp_path / "edges.csv"
    path.write_text(text)
    with pytest.raises(ValueError, match="line 1: expected a finite number as the weight"):
        wk.load_graph(path)


def test_semicolons_come_before_decimal_commas(tmp_path):
    path = tmp_path / "edges.csv"
    path.write_text("0;1;0,5\n1;2;0,25\n")
    with pytest.raises(ValueError, match="line 1: expected a finite number as the weight, found '0,5'"):
        wk.load_graph(path)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("cr.csv", b"0,1\r1,2\r2,3\r"),
        ("names.csv", b"a,b\rb,c\rc,d\r"),
        ("tabs.tsv", b"0\t1\t\n1\t2\t\n2\t3\t\n"),
    ],
)
def test_old_line_ends_and_final_delimiters(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    assert wk.load_graph(tmp_path / name).n_edges == 3
