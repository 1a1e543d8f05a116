"""`brevis.torch`: the front door of `brevis.adapters.torch`.

It may assume that torch is there. It does not know more than the names.
"""

from brevis.adapters.torch import load, load_file, save, save_file

__all__ = ["load", "load_file", "save", "save_file"]
