"""TensorFlow and Keras, imported at the first network and never before."""

from __future__ import annotations

import importlib.util
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from dpforest.errors import DPForestError

# A simulation has a worker on every core, so that more threads would only get in each other's way.
_THREADS = 1


class MissingTensorFlow(DPForestError):
    """A network is asked for without TensorFlow."""


def require_tensorflow(method: str) -> None:
    """Refuse a method that trains a network where TensorFlow is not installed; imports nothing.

    Raises
    ------
    MissingTensorFlow
        Names the command that installs it.
    """
    if any(importlib.util.find_spec(name) is None for name in ("tensorflow", "keras")):
        raise MissingTensorFlow(f'strategy {method!r} trains a network with TensorFlow: pip install "dpforest[mlp]"')


@cache
def tensorflow() -> Any:
    """The module, set up for many small workers on one machine."""
    require_tensorflow("mlp")
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    os.environ.setdefault("KERAS_BACKEND", "tensorflow")
    with _quiet_unless_it_fails():
        import tensorflow as tf

    try:
        tf.config.threading.set_intra_op_parallelism_threads(_THREADS)
        tf.config.threading.set_inter_op_parallelism_threads(_THREADS)
    except RuntimeError:
        # Whoever used TensorFlow first in this process has already chosen its threads.
        pass
    return tf


@contextmanager
def _quiet_unless_it_fails() -> Iterator[None]:
    """Hold back what is written to standard error meanwhile: TensorFlow's notes come before it looks at any setting."""
    try:
        error = os.dup(2)
    except OSError:  # closed
        yield
        return
    with tempfile.TemporaryFile() as held:
        os.dup2(held.fileno(), 2)
        try:
            yield
        except BaseException:
            held.seek(0)
            os.write(error, held.read())
            raise
        finally:
            os.dup2(error, 2)
            os.close(error)


@cache
def keras() -> Any:
    """Keras on TensorFlow.

    Raises
    ------
    DPForestError
        This process already runs Keras on another backend.
    """
    tensorflow()
    import keras as module

    if module.backend.backend() != "tensorflow":
        raise DPForestError(f"Keras runs on {module.backend.backend()!r} here: set KERAS_BACKEND=tensorflow")
    return module
