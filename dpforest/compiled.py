"""Functions that Numba compiles: kept on disk where there is room for them, and never interrupted half way."""

from __future__ import annotations

# The same functions as in `signal` without its look-ups of names, which take ten times as long.
from _signal import getsignal, signal  # type: ignore[import-not-found]
from collections.abc import Callable, Mapping
from contextlib import suppress
from signal import Signals
from threading import get_ident, main_thread
from types import FrameType
from typing import Any

from numba import njit
from numba.core.caching import FunctionCache
from numba.core.registry import CPUDispatcher

Handler = Callable[[int, FrameType | None], Any]
# Whose handlers may raise: Ctrl-C, a program that is ended, one whose time is up.
_HELD = [getattr(Signals, name) for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGALRM") if hasattr(Signals, name)]


class _Uninterrupted(CPUDispatcher):
    """A compiled function whose caller's signal handlers run after it.

    Numba runs Python in a call, to make arrays of what is returned or to look into a random generator, and goes on
    with half of that if it raises. An interrupt there came out as SystemError, or ended the process.
    """

    def __call__(self, *arguments: Any) -> Any:
        if get_ident() != main_thread().ident:  # Python runs signal handlers in the main thread only
            return super().__call__(*arguments)
        arrived: list[tuple[int, FrameType | None]] = []
        handlers: dict[int, Handler] = {}
        try:
            for number in _HELD:
                handler = getsignal(number)
                if callable(handler):
                    handlers[number] = handler
                    signal(number, lambda *details: arrived.append(details))
            return super().__call__(*arguments)
        finally:
            _restore(handlers)
            for number, frame in arrived:
                handlers[number](number, frame)


def _restore(handlers: Mapping[int, Handler]) -> None:
    try:
        for number, handler in handlers.items():
            signal(number, handler)
    except BaseException:  # of a handler that is there again
        _restore(handlers)
        raise


class _OptionalCache(FunctionCache):
    """Numba's cache; what it cannot read or write, on a full disk say, is compiled anew."""

    def load_overload(self, *arguments: Any) -> Any:
        """The compiled function, or None."""
        with suppress(OSError):
            return super().load_overload(*arguments)
        return None

    def save_overload(self, *arguments: Any) -> None:
        """Keep it, if possible."""
        with suppress(OSError):
            super().save_overload(*arguments)


def compiled(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Decorator of a function that is compiled at its first call, works without Python, and lets threads run meanwhile.

    Parameters
    ----------
    **options
        More options of ``numba.njit``.
    """

    def decorate(function: Callable[..., Any]) -> Any:
        dispatcher = njit(nogil=True, **options)(function)
        if isinstance(dispatcher, CPUDispatcher):  # not where Numba compiles nothing
            dispatcher.__class__ = _Uninterrupted
            # Numba refuses to keep anything, and so to be imported, where neither the package nor the home can be
            # written.
            with suppress(RuntimeError):
                dispatcher._cache = _OptionalCache(function)
        return dispatcher

    return decorate
