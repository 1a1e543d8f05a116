"""Adapters: archives in the terms of other libraries, one room for each, which alone imports that library.

They share rooms for what they have in common: header and content (where tensors are, and their bytes), arrays
(memory, and parts of tensors), load, tensors and writer (whole checkpoints, one tensor, saving), which know
a framework only by the protocol of that name. They may assume the functions of file, reader and codec. They
don't know what a record looks like.
"""
