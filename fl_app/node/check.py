"""What ``dpforest node --check`` says: what the owner's schema makes of the table, and what the limits allow."""

from __future__ import annotations

from pathlib import Path

from dpforest.errors import DPForestError
from fl_app.data.reading.files import files_by_name
from fl_app.data.reading.table_check import check_table
from fl_app.data.reading.table_file import SUFFIXES
from fl_app.engine.owner_schema import OwnerSchema
from fl_app.node.owner_file import OwnerFile
from strategies.node.consent import describe_limits


def check_node(owner: OwnerFile) -> tuple[list[str], bool]:
    """Lines for the owner, which stay on this machine, and whether something keeps the node from taking part.

    Raises
    ------
    DPForestError
        A key, a limit or the schema is wrong, or the data cannot be read.
    """
    schema, path = owner.schema(), owner.node_config.get("data-path")
    owner.key()
    lines, failed = [], False
    if schema is None:
        lines.append("no [schema]: this node answers no run about a table (dataset=table)")
    elif path is None:
        raise DPForestError(f"{owner.path} has a schema and no data-path: say where the table is")
    else:
        for file in files_by_name(Path(path), SUFFIXES, "table").values() if Path(path).is_dir() else [Path(path)]:
            report = check_table(file, schema.schema)
            lines += report.lines
            failed |= report.failed
        lines += _offers(schema)
    return [*lines, *describe_limits(owner.context)], failed


def _offers(schema: OwnerSchema) -> list[str]:
    own = schema.schema
    kept = [name for name in own.columns if name not in schema.usable]
    return [
        f"a run may ask for: {', '.join(name for name in own.columns if name in schema.usable) or 'nothing'}",
        *([f"kept back (use = false): {', '.join(kept)}"] if kept else []),
        f"and learn: {own.target} ({', '.join(own.classes) if own.is_classification else 'a number'})",
    ]
