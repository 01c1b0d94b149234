"""Reads directories of files as people do that know nothing of cooperator."""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

_READS = 20


def read_plainly(path: Path) -> "pa.Table":
    """Returns the rows that pyarrow finds; the documentation says when a read has to be repeated."""
    import pyarrow.dataset as ds

    for _ in range(_READS):
        try:
            return ds.dataset(path, format="parquet", partitioning="hive").to_table()
        except FileNotFoundError as error:
            if "_cooperator" not in str(error):
                raise  # only files that are not visible yet may vanish
    raise AssertionError(f"{path} could not be listed in {_READS} reads")
