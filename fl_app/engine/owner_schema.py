"""The owner's schema of a node: what a server's schema may be a part of, and no more.

A server that chose columns freely could ask for any that the table has, and by its errors learn which there are. With a
schema of the owner's it can ask for what is offered in public, and is answered the same about everything else, there or
not.
"""

from __future__ import annotations

import logging
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dpforest.cells import MISSING, OTHER
from dpforest.errors import DPForestError, SchemaError
from dpforest.schema import Schema
from dpforest.texts import parse_yaml
from fl_app.data.cache import Recent, state_of
from strategies.node.consent import Refused

log = logging.getLogger(__name__)
USE, SCHEMA = "use", "schema"


@dataclass(frozen=True)
class OwnerSchema:
    """A schema with the columns that may be used.

    Parameters
    ----------
    schema : Schema
        Of all columns that the owner describes.
    usable : frozenset of str
        Columns that a run may ask for; the target always may.
    """

    schema: Schema
    usable: frozenset[str]

    @classmethod
    def from_dict(cls, plain: Any) -> OwnerSchema:
        """Read a schema whose features may say ``use: false``.

        Raises
        ------
        SchemaError
            As `Schema.from_dict`, or a ``use`` is neither true nor false.
        """
        if not isinstance(plain, Mapping) or not isinstance(plain.get("features"), list):
            return cls(Schema.from_dict(plain), frozenset())  # which says what is wrong
        features, unusable = [], set()
        for item in plain["features"]:
            own = dict(item) if isinstance(item, Mapping) else item
            use = own.pop(USE, True) if isinstance(own, dict) else True
            if not isinstance(use, bool):
                raise SchemaError(f"feature {own.get('name')!r}: use {use!r} must be true or false")
            features.append(own)
            unusable |= set() if use else {str(own.get("name"))}
        schema = Schema.from_dict({**plain, "features": features})
        return cls(schema, frozenset(schema.columns) - unusable)

    @classmethod
    def read(cls, path: Path) -> OwnerSchema:
        """Read a schema file (YAML), or the ``[schema]`` of a TOML file.

        Raises
        ------
        SchemaError
            It cannot be read, or is no schema.
        """
        return _recent.get(repr(_state(path)), lambda: cls.from_dict(_plain(path)))

    def check(self, asked: Schema) -> None:
        """Hold a server's schema against this one.

        Raises
        ------
        Refused
            It asks for more. The words are the same for a column that is not there and for one that may not be used.
        """
        for name in asked.columns:
            if name not in self.usable:
                raise Refused(f"this node's owner offers no column {name!r}")
        own = self.schema
        bounds = {own.features[f].name: own.features[f] for f in own.numeric_features}
        for feature in (asked.features[f] for f in asked.numeric_features):
            if feature.name not in bounds:
                raise Refused(f"this node's owner offers column {feature.name!r} as one of categories")
            offered = bounds[feature.name]
            _check_range(f"column {feature.name!r}", (feature.low, feature.high), (offered.low, offered.high))
        for name, values in asked.categories.items():
            if name not in own.categories:
                raise Refused(f"this node's owner offers column {name!r} as a number")
            _check_words(f"column {name!r}", values, (*own.categories[name], OTHER, MISSING))
        self._check_target(asked)

    def _check_target(self, asked: Schema) -> None:
        own = self.schema
        if asked.target != own.target or asked.is_classification != own.is_classification:
            kind = "classes" if own.is_classification else "numbers"
            raise Refused(f"this node's owner offers the target {own.target!r} ({kind}) and no other")
        _check_words(f"target {own.target!r}", asked.classes, own.classes)
        if asked.target_range is not None and own.target_range is not None:
            _check_range(f"target {own.target!r}", asked.target_range, own.target_range)


def _check_range(what: str, asked: tuple[float, float], offered: tuple[float, float]) -> None:
    if not offered[0] <= asked[0] < asked[1] <= offered[1]:
        raise Refused(
            f"the schema says {what} is from {asked[0]:g} to {asked[1]:g}, and this node's owner offers from "
            f"{offered[0]:g} to {offered[1]:g}"
        )


def _check_words(what: str, asked: tuple[str, ...], offered: tuple[str, ...]) -> None:
    if more := [word for word in asked if word not in offered]:
        raise Refused(f"this node's owner does not offer {more[0]!r} of {what}")


def _state(path: Path) -> tuple[str, int, int]:
    try:
        return state_of(path)
    except OSError as error:
        raise SchemaError(f"the schema {str(path)!r} cannot be read: {error.strerror}") from error


def _plain(path: Path) -> Any:
    try:
        text = path.read_text(encoding="utf-8")
        if path.suffix.lower() != ".toml":
            return parse_yaml(text)
        plain = tomllib.loads(text)
    except (OSError, ValueError) as error:  # text that is no UTF-8, TOML or YAML too
        raise SchemaError(f"the schema {str(path)!r} cannot be read: {error}") from error
    if SCHEMA not in plain:
        raise SchemaError(f"{str(path)!r} has no [{SCHEMA}]")
    return plain[SCHEMA]


_recent: Recent[OwnerSchema] = Recent(4)


def check_owner_schema(asked: Schema, path: Any) -> None:
    """Hold a server's schema against the owner's file; what is wrong with that file stays on the node.

    Raises
    ------
    Refused
    """
    try:
        if not isinstance(path, str) or not path:
            raise SchemaError(f"schema {path!r} must be the path of a file")
        own = OwnerSchema.read(Path(path).expanduser())
    except DPForestError as error:
        log.warning("%s", error)
        raise Refused("the owner's schema of this node cannot be read; its log says why") from None
    own.check(asked)
