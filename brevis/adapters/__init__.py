"""Adapters: archives in the terms of other libraries, one module for each, which alone imports that library.

They may assume the public functions of file and codec. They don't know what a record looks like.
"""
