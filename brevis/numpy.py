"""`brevis.numpy`: the front door of `brevis.adapters.numpy`.

It may assume that numpy is there. It does not know more than the names.
"""

from brevis.adapters.numpy import load, load_file, save, save_file

__all__ = ["load", "load_file", "save", "save_file"]
