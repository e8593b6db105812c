"""Forests as arrays: structure, prediction, validation, wire codec, JSON."""

from dpforest.forest.codec import pack, unpack
from dpforest.forest.forest import Forest, concatenate
from dpforest.forest.importance import feature_importances
from dpforest.forest.json_format import load, save
from dpforest.forest.validate import Limits, validate

__all__ = ["Forest", "Limits", "concatenate", "feature_importances", "load", "pack", "save", "unpack", "validate"]
