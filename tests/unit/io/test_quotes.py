"""A quote that is not closed is an error on its own line, in every text that is read line by line."""

import pytest

import files
import walkernel as wk
from commands import call

UNBALANCED = {
    "labels": ('a,"b\nc,d\n', 1),
    "labels, last line": ('a,b\nc,"d\n', 2),
    "labels, closed by a later line": ('a,b\nc,"d\ne,f"\ng,h\n', 2),
    "labels, behind a header": ('source,target\na,"b\nc,d\n', 2),
    "a header": ('source,"target\na,b\nc,d\n', 1),
    "labels after comments": ('# nodes\n\na,b\n# more\n"c,d\ne,f\n', 5),
    "whole numbers": ('0,"1\n1,2\n', 1),
    "whole numbers, closed by a later line": ('0,1\n1,"2\n"\n2,3\n', 2),
    "whole numbers, last line": ('0,1\n1,"2', 2),
    "weights": ('0,1,2\n1,2,"3\n2,3,4\n', 2),
    "weights, closed by a later line": ('0,1,2\n1,2,"3\n"\n2,3,4\n', 2),
    "spaces": ('a b\nc "d\ne f\n', 2),
    "semicolons": ('a;b\nc;"d\ne;f\n', 2),
}


@pytest.mark.parametrize("relabel", [False, True])
@pytest.mark.parametrize("case", UNBALANCED)
def test_edge_lists(case, relabel, tmp_path):
    text, line = UNBALANCED[case]
    path = files.write(tmp_path, "edges.csv", text)
    with pytest.raises(
        ValueError, match=f"edges.csv, line {line}: expected a closing quote on the same line"
    ):
        wk.load_graph(path, relabel=relabel)


def test_quotes_that_are_closed_or_inside_a_name(tmp_path):
    path = files.write(tmp_path, "edges.csv", '"a","b, c"\n "d" ,5" disk\n"say ""hello""",d\n')
    assert wk.load_graph(path).labels == ("a", "b, c", "d", '5" disk', 'say "hello"')
    path = files.write(tmp_path, "numbers.csv", '"0","1"\n1,"2"\n')
    assert wk.load_graph(path).n_edges == 2


@pytest.mark.parametrize(
    ("text", "line"),
    [('0,1.5\n1,"2\n2,3\n', 2), ('node,value\n0,1\n1,"2', 3), ('"0,1\n1,2\n', 1), ('0,1\n1,"2\n"\n', 2)],
)
def test_values_of_nodes(text, line, tmp_path):
    path = files.write(tmp_path, "values.csv", text)
    result = call("regress", "karate", path)
    assert result.exit_code == 1
    assert f"values.csv, line {line}: expected a closing quote" in result.stderr


def test_list_of_nodes(tmp_path):
    path = files.write(tmp_path, "nodes.csv", '0,"Ada\n1,Ben"\n2,Cem\n')
    result = call("features", "karate", "--nodes", path, "--out", tmp_path / "features.npz")
    assert result.exit_code == 1
    assert "nodes.csv, line 1: expected a closing quote" in result.stderr
