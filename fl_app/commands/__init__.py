"""The commands: ``dpforest COMMAND``, and the same as ``python -m fl_app...``."""
