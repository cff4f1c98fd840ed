"""Data sets in files: their sources, where they are searched for, and how they are downloaded.

The originals are public files of GitHub repositories at fixed commits, identified by their SHA-256. A data
set is downloaded once, checked, converted to a NumPy archive in the edge format, and cached; incomplete
files never stay in the cache.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple, NoReturn

from walkernel._files import write_archive
from walkernel.datasets._converters import (
    ArrayDict,
    from_class_table,
    from_dimacs,
    from_gml,
    from_links,
    from_matlab,
    from_mesh,
    from_target_table,
)
from walkernel.io import optional

ADDRESS = "https://raw.githubusercontent.com"
MIT = "MIT (repository)"
UNSTATED = "none stated in that repository (SNAP data set)"

COMMUNITIES = "vlivashkin/community-graphs/e282fe406e8b0c7b09a1d0c59af95632b8757b31"
MUSAE_FACEBOOK = "benedekrozemberczki/datasets/ca6ad595ef93473106b3909e087be364032ce56b"
MUSAE_LASTFM = "benedekrozemberczki/datasets/8ac937178d60da00e56c9ba7b1d672dca31877b2"
MUSAE_WIKI = "benedekrozemberczki/datasets/212779c1ceeedd06035d30c5071859123b331527"
PYGSP = "epfl-lts2/pygsp/4716b12c470c579e3f477f2d1c1d99752c73252d"
ROADS = "ben-strasser/road-graphs-pace16/d65496ca1e6a99e3fb782af04ef706b7f39ce876"
SNAP = "sumanthratna/cpsc524-final-project/3619e8b2644ba41c389ca24e9a8d2995fbbb75c0"
TRIMESH = "mikedh/trimesh/a513c0e2cfa6dfbd3121a6dfd8ceb002b9ef55d8"


class Source(NamedTuple):
    """A data set in a file; ``convert`` is None if its originals cannot be read safely."""

    name: str
    folder: str
    n_nodes: int
    n_edges: int
    convert: Callable[[Sequence[Path]], ArrayDict] | None
    licence: str
    repository: str  # with its commit
    originals: dict[str, str]  # paths in it and their SHA-256

    def address(self, original: str) -> str:
        """Return the public address of one of the originals."""
        return f"{ADDRESS}/{self.repository}/{original}"

    @property
    def file(self) -> Path:
        """Where the file is, below a folder of data."""
        return Path(self.folder, self.name.replace("-", "_") + ".npz")


# fmt: off
SOURCES = (
    Source("dolphins", "graphs", 62, 159, from_gml, MIT, COMMUNITIES, {
        "gml_connected_subgraphs/dolphins.gml":
            "efa96aea5b34537993c3b1ae3841e1273da4d006732b5df5ada3e06f861f4435",
    }),
    Source("polbooks", "graphs", 105, 441, from_gml, MIT, COMMUNITIES, {
        "gml_connected_subgraphs/polbooks.gml":
            "cab19bf3569c4df4076813f31febbc0cfe862349abdac7642eba83e285619551",
    }),
    Source("football", "graphs", 115, 613, from_gml, MIT, COMMUNITIES, {
        "gml_connected_subgraphs/football.gml":
            "f5f39481a0d66c029375bd79a7123ffbd17a7e61eb00bc6a2d159a134d3f331f",
    }),
    Source("databases", "graphs", 1_046, 3_186, from_gml, MIT, COMMUNITIES, {
        "gml_graphs/cora_subset/Databases.gml":
            "11132f07880e202f79da9ed757083df6bb606892020d04b6334ec788bdc551e2",
    }),
    Source("eurosis", "graphs", 1_272, 6_454, from_gml, MIT, COMMUNITIES, {
        "gml_connected_subgraphs/eurosis.gml":
            "6b1adfac02857c06adefadaa7827496430f8b47cf423a5d24248061aa6905bee",
    }),
    Source("cora", "graphs", 2_485, 5_069, from_gml, MIT, COMMUNITIES, {
        "gml_connected_subgraphs/cora/cora.gml":
            "71d6a5282573e1229048c2cb3e30d1947430c88a3f7beaa48a68de77ccadfbeb",
    }),
    Source("citeseer", "graphs", 3_327, 4_552, from_gml, MIT, COMMUNITIES, {
        "gml_graphs/citeseer.gml":
            "2f4d3d7054e9aa2700b218d3cee21aad5ab85d3bce220385adbea94cb960837e",
    }),
    Source("pubmed", "graphs", 19_717, 44_324, None, MIT, "", {}),
    Source("facebook_pages", "graphs", 22_470, 170_823, from_class_table, MIT, MUSAE_FACEBOOK, {
        "facebook_large/facebook_edges.csv":
            "7c50d8f02a75cc0829577814a1fc14535164daa38d79c3612340c9e9cdbd4022",
        "facebook_large/facebook_target.csv":
            "7bd96eafea3c2ca40f44bfa9e73642194696c21e38c7b29ed409c32ad14075cd",
    }),
    Source("lastfm_asia", "graphs", 7_624, 27_806, from_class_table, MIT, MUSAE_LASTFM, {
        "lasftm_asia/lastfm_asia_edges.csv":
            "548eacff61bff564ab5007831fa4a7a30e1a3956075ffd24e43310ed33555842",
        "lasftm_asia/lastfm_asia_target.csv":
            "91f19215f6eca8321feec038bd32900cf13fd4f7e041a9976cf202807c72ac16",
    }),
    Source("wiki_chameleon", "graphs", 2_277, 31_371, from_target_table, MIT, MUSAE_WIKI, {
        "wikipedia/chameleon/chameleon_edges.csv":
            "b90d671846530ea7c0f6f6d0e3be98eb512ecd8e9741811940fe4029d991b266",
        "wikipedia/chameleon/chameleon_target.csv":
            "5816b4731cbd156738095550d1f6e37caf6f4dabe1d660c035156408ae6bae43",
    }),
    Source("minnesota", "graphs", 2_642, 3_303, from_matlab, "BSD-3-Clause (repository)", PYGSP, {
        "pygsp/data/pointclouds/minnesota.mat":
            "a3cbf534020de2e4cf10fe0d5ba57e903466f5712e757f74e28e0bb91027de08",
    }),
    Source("road_fla", "graphs", 1_070_376, 1_343_951, from_dimacs, "public domain (repository)", ROADS, {
        "FLA.gr.xz":
            "9ec88b60ca5cdb4e31c128cb3bb0559ac3b34164f50704621f03b326eeb48bee",
    }),
    Source("soc_epinions", "graphs", 75_879, 405_740, from_links, UNSTATED, SNAP, {
        "datasets/soc-Epinions1.txt.gz":
            "69a2dab71fa5e3a0715487599fc16ca17ddc847379325a6c765bbad6e3e36938",
    }),
    Source("cylinder", "meshes", 210, 624, from_mesh, MIT, TRIMESH, {
        "models/cylinder.stl":
            "64cc6af4c1c52ed281313f7eef03bd79cfb75b954912e646391e6564d7f592fa",
    }),
    Source("teapot", "meshes", 480, 1_373, from_mesh, MIT, TRIMESH, {
        "models/teapot.stl":
            "2c0c36eba0f33d0f10429e9f7e06bf34fa3df0bc9ee1082fd32eb89cd483e9b6",
    }),
    Source("idler-riser", "meshes", 782, 2_358, from_mesh, MIT, TRIMESH, {
        "models/idler_riser.STL":
            "8fb9237ab07cdd50b033ade13d79f14ba9ac68cefb0be07cb993a535a344b733",
    }),
    Source("busted", "meshes", 1_941, 5_817, from_mesh, MIT, TRIMESH, {
        "models/busted.STL":
            "ec9d11fd0db249f1e40b737d07227cfc2f06bbd033e3dcc9e785b5ec25b8d024",
    }),
    Source("torus", "meshes", 4_350, 13_050, from_mesh, MIT, TRIMESH, {
        "models/torus.STL":
            "91441a7f60479bda93c59dd88134da3b4f33d1df71729fe71e1b2ae989974da3",
    }),
    Source("cycloidal", "meshes", 21_384, 64_810, from_mesh, MIT, TRIMESH, {
        "models/cycloidal.ply":
            "d10f336ff4c4ca7f2c262b1fd880a2ac2bbe1ea60c072951f3f5003986481e5a",
    }),
)
# fmt: on

REQUIRED_PACKAGES = {from_gml: ("networkx", "data"), from_mesh: ("trimesh", "mesh")}
"""Packages, and the extras they come with, beside pooch."""


def find_file(source: Source) -> Path | None:
    """Return the file of a data set if it is on this machine already."""
    for folder in (_folder("WALKERNEL_DATA"), cache_folder()):
        if folder is not None and (folder / source.file).is_file():
            return folder / source.file
    return None


def cache_folder() -> Path | None:
    """Return the folder in which downloaded data sets are kept.

    It is the folder that the environment variable ``WALKERNEL_CACHE`` names, else the user's cache folder.

    Returns
    -------
    Path or None
        The folder; None if pooch, of ``pip install walkernel[data]``, would be needed to find it and is
        missing.

    Examples
    --------
    >>> import walkernel as wk
    >>> folder = wk.datasets.cache_folder()
    >>> folder is None or not folder.is_file()
    True
    """
    named = _folder("WALKERNEL_CACHE")
    if named is not None:
        return named
    try:
        return Path(optional("pooch", "data", "The cache").os_cache("walkernel"))
    except ImportError:
        return None


def download(source: Source) -> Path:
    """Fetch, check and convert the originals of a data set; return its new file in the cache.

    Raises
    ------
    OSError
        If the download or conversion fails; the message names the address, and where to put the file.
    ImportError
        If a required package is missing.
    """
    if source.convert is None:
        _raise_unavailable(source, "its originals are pickles, which are never loaded")
    try:
        pooch = optional("pooch", "data", f"Downloading {source.name!r}")
        if source.convert in REQUIRED_PACKAGES:
            optional(*REQUIRED_PACKAGES[source.convert], f"Converting {source.name!r}")
    except ImportError as error:
        raise ImportError(f"{error} Or put the file {_expected_paths(source)}.") from None
    folder = _folder("WALKERNEL_CACHE") or Path(pooch.os_cache("walkernel"))
    address = ""
    try:
        with tempfile.TemporaryDirectory(prefix="walkernel-") as temporary:
            paths = []
            for original, sha256 in source.originals.items():
                address, name = source.address(original), Path(original).name
                check = f"sha256:{sha256}"
                whole = pooch.HTTPDownloader(stream=False)  # a failure leaves no socket open
                file = pooch.retrieve(address, check, fname=name, path=temporary, downloader=whole)
                paths.append(Path(file))
            arrays = source.convert(paths)
        found = (int(arrays["n"]), len(arrays["edges"]))
        if found != (source.n_nodes, source.n_edges):
            raise ValueError(f"it has {found[0]} nodes and {found[1]} edges")
        (folder / source.file).parent.mkdir(parents=True, exist_ok=True)
        write_archive(folder / source.file, arrays)
    except Exception as error:
        _raise_unavailable(source, f"{address}: {error}", error)
    return folder / source.file


def _raise_unavailable(source: Source, reason: str, cause: Exception | None = None) -> NoReturn:
    data_folder = os.environ.get("WALKERNEL_DATA") or "not set"
    raise OSError(
        f"Could not get the data set {source.name!r}: {reason.rstrip('.')}. "
        f"Put the file {_expected_paths(source)}; WALKERNEL_DATA is {data_folder}."
    ) from cause


def _expected_paths(source: Source) -> str:
    cache = cache_folder()
    either = "" if cache is None else f" or at {cache / source.file}"
    return f"at $WALKERNEL_DATA/{source.file.as_posix()}{either}"


def _folder(variable: str) -> Path | None:
    value = os.environ.get(variable, "").strip()
    return Path(value).expanduser() if value else None
