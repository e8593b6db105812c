"""Forests as arrays: structure, prediction, validation, wire codec, JSON."""

from dpforest.forest.class_weights import weigh_classes
from dpforest.forest.codec import pack, unpack
from dpforest.forest.forest import Forest, concatenate
from dpforest.forest.importance import feature_importances
from dpforest.forest.json_format import json_schema, load, save
from dpforest.forest.nested import to_nested
from dpforest.forest.onnx_export import save_onnx, to_onnx
from dpforest.forest.validate import Limits, validate

__all__ = [
    "Forest",
    "Limits",
    "concatenate",
    "feature_importances",
    "json_schema",
    "load",
    "pack",
    "save",
    "save_onnx",
    "to_nested",
    "to_onnx",
    "unpack",
    "validate",
    "weigh_classes",
]
