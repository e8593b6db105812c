"""Plain-text tables: cells below each other."""

from __future__ import annotations

from collections.abc import Sequence


def aligned(rows: Sequence[Sequence[object]]) -> list[str]:
    """A line a row, with its cells where those of all other rows stand."""
    widths = [max(len(str(cell)) for cell in column) for column in zip(*rows, strict=True)]
    return ["  ".join(str(cell).ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in rows]


def columns(header: Sequence[str], rows: Sequence[Sequence[str]], width: int | None = None) -> str:
    """Aligned columns under a header; if wider than ``width``, in blocks below each other with numbered lines."""
    widths = [max(len(str(row[i])) for row in (header, *rows)) for i in range(len(header))]
    if width is not None and sum(widths) + 2 * (len(widths) - 1) > width:
        starts, used = [0], len(str(len(rows)))
        for i, each in enumerate(widths):
            if used + 2 + each > width and i > starts[-1]:
                starts.append(i)
                used = len(str(len(rows)))
            used += 2 + each
        blocks = [slice(start, end) for start, end in zip(starts, [*starts[1:], len(widths)], strict=True)]
        numbered = [(str(number), row) for number, row in enumerate(rows, 1)]
        return "\n\n".join(
            columns(["#", *header[block]], [[number, *row[block]] for number, row in numbered]) for block in blocks
        )
    lines = aligned([header, *rows])
    return "\n".join([lines[0], "-" * len(lines[0]), *lines[1:]])
