"""What a job's steps change, written to TensorFlow's own checkpoints, and read from them."""

import importlib
import re
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, Protocol

from tfwave.errors import CheckpointError, excerpt

_IN_KERNEL = re.compile(r"\{\{.*?\}\} ")
"""What TensorFlow puts before some messages."""


class State(Protocol):
    """Variables that are written together, under a prefix: a path without the endings of TensorFlow's files."""

    def write(self, prefix: str) -> None:
        """Write their values.

        Raises:
            CheckpointError: they cannot be.
        """
        ...

    def read(self, prefix: str) -> None:
        """Give them the values that were written there.

        Raises:
            CheckpointError: what is there cannot be read, or is of other variables.
        """
        ...


class ObjectState:
    """Those of a `tf.train.Checkpoint`."""

    def __init__(self, checkpoint: Any) -> None:
        self._checkpoint = checkpoint

    def write(self, prefix: str) -> None:
        """As `State` says."""
        with _explained("written", prefix):
            self._checkpoint.write(prefix)

    def read(self, prefix: str) -> None:
        """Likewise; an optimizer whose variables are not made yet would get its values too late."""
        with _explained("read", prefix):
            self._checkpoint.read(prefix).assert_consumed()


class SessionState:
    """Those of a `tf.compat.v1.train.Saver`, in a session."""

    def __init__(self, session: Any, saver: Any) -> None:
        self._session = session
        self._saver = saver

    def write(self, prefix: str) -> None:
        """As `State` says."""
        with _explained("written", prefix), self._session.graph.as_default():
            self._saver.save(self._session, prefix, write_meta_graph=False, write_state=False)

    def read(self, prefix: str) -> None:
        """Likewise."""
        with _explained("read", prefix), self._session.graph.as_default():
            self._saver.restore(self._session, prefix)


@contextmanager
def _explained(done: str, prefix: str) -> Generator[None]:
    errors: Any = importlib.import_module("tensorflow").errors
    try:
        yield
    except (errors.OpError, AssertionError, ValueError, OSError) as error:
        said = _IN_KERNEL.sub("", " ".join(str(error).split())).rstrip(".")
        raise CheckpointError(f"'{prefix}' cannot be {done}: {excerpt(said)}") from error
