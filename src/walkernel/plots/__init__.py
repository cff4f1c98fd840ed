"""Pictures of values at nodes, of kernels and of models; matplotlib is imported when one is drawn.

Every function draws on the axes that it is given, or on new ones, and returns them. Save a picture with
``axes.figure.savefig("map.png")``.
"""

from walkernel.plots._curves import plot_error_against_steps, plot_modulation, plot_reliability
from walkernel.plots._demo import save_error_curves
from walkernel.plots._layout import node_positions
from walkernel.plots._maps import plot_gp, plot_kernel_row, plot_mesh, plot_nodes

__all__ = [
    "node_positions",
    "plot_error_against_steps",
    "plot_gp",
    "plot_kernel_row",
    "plot_mesh",
    "plot_modulation",
    "plot_nodes",
    "plot_reliability",
    "save_error_curves",
]
