"""Lossless compression of model checkpoints."""
