"""The order of the examples in the gallery."""

EXAMPLES = (
    "road_map",
    "choose_kernel",
    "few_labels",
    "calibrated_probabilities",
    "thompson_sampling",
    "nearest_nodes",
    "heat_on_mesh",
    "normals",
    "cluster_blocks",
    "learned_kernel",
    "masked_attention",
    "paper_figure_2",
    "million_nodes",
    "changing_graph",
    "walks_lose",
)


class Order:
    """A sorting key; examples that are not listed come last."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def __call__(self, name: str) -> tuple[int, str]:
        """Return the place of a file of this name."""
        example = name.removeprefix("plot_").removesuffix(".py")
        return (EXAMPLES.index(example) if example in EXAMPLES else len(EXAMPLES)), name
