"""Archives for fsspec: `compression="brevis"`, guessed from names that end in `.brv`; and files by URL.

It may assume that fsspec is there; importing this room, or `brevis.fsspec`, registers the compression. It
does not know what an archive holds.
"""

from __future__ import annotations

from typing import Any

import fsspec
from fsspec.compression import register_compression

from brevis.file import BrevisFile

SUFFIX = "brv"


class OwningFile(BrevisFile):
    """An archive in a file object that's closed with it, because nobody else does it in `fs.open`."""

    def __init__(self, file: Any, mode: str = "rb", **options: Any) -> None:
        """Open the archive as fsspec wants it done; options are those of `brevis.open`."""
        self._owned = file
        super().__init__(file, mode, **options)

    def close(self) -> None:
        """Close both."""
        try:
            super().close()
        finally:
            self._owned.close()


def open_url(url: str) -> Any:
    """Open a file for reads at any place, of which no more is fetched than is read."""
    file_system, path = fsspec.core.url_to_fs(url)
    return file_system.open(path, "rb", cache_type="none")


register_compression("brevis", OwningFile, SUFFIX, force=True)
