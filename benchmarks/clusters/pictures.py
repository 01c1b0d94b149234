"""The form that all pictures of the article's page share."""

from pathlib import Path
from typing import Final

import matplotlib as mpl
from matplotlib.figure import Figure

COLORS: Final = ("#4c72b0", "#dd8452", "#55a868", "#c44e52", "#8172b3", "#937860", "#da8bc3", "#8c8c8c")


def finish(figure: Figure, file: Path) -> None:
    """Write ``figure`` as SVG whose bytes depend on nothing but what is drawn."""
    for axes in figure.axes:
        axes.spines[["top", "right"]].set_visible(False)
    figure.axes[0].legend(fontsize=7, frameon=False)
    figure.tight_layout()
    with mpl.rc_context({"svg.hashsalt": "cooperator", "svg.fonttype": "none"}):
        figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None}, bbox_inches="tight")
