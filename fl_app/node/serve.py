"""The node itself: it waits for messages, answers with the installed app, and stays warm in between."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

from flwr.app import Context, Message, MessageType, RecordDict

import dpforest
from dpforest.errors import DPForestError, one_line
from dpforest.files import written_whole
from fl_app.engine.node import ExperimentHost
from fl_app.engine.node_state import StateError
from fl_app.node.owner_file import OwnerFile
from fl_app.node.places import alone, check_state
from fl_app.node.states import RunStates
from strategies.flower_compat import identify_run
from strategies.flower_compat.connection import Connection, Incoming, NoConnection, NotDelivered
from strategies.messages import error_content
from strategies.node.app import NodeApp
from strategies.node.consent import Refused, describe_limits, write_answer, write_request

log = logging.getLogger(__name__)

_Done = TypeVar("_Done")
_APP = "dpforest"
_NODE = "node-id"
# Seconds between two questions for a message: few while a run is under way, more when nothing has come for long.
_SHORTEST, _LONGEST, _SHARE = 0.05, 2.0, 0.05
_RETRY, _LONGEST_RETRY = 1.0, 15.0


class WarmNode:
    """Answers messages in this process, for as long as it lives.

    Parameters
    ----------
    owner : OwnerFile
    """

    def __init__(self, owner: OwnerFile) -> None:
        self._config = dict(owner.node_config)
        self._app = NodeApp(ExperimentHost(needs_schema=True))
        self._states = RunStates(Path(owner.node_config["state-folder"]))

    def answer(self, incoming: Incoming, node: int) -> Message:
        """The answer to a message; what it followed from is on the disk before.

        The bundle of the run is not looked at: only its name and version, to say in words what does not fit.

        Raises
        ------
        NotDelivered
            Flower has no form for an answer to such a message.
        """
        run, message = incoming.run, incoming.message
        identify_run(run, node)
        context = Context(run, node, dict(self._config), RecordDict(), run_config={})
        try:
            check_bundle(incoming.app, incoming.version)
            check_kind(message.metadata.message_type)
            context.state = self._states.load(run)
        except (Refused, StateError) as error:
            log.warning("%s", error)
            return _reply(message, self._turned_down(message, context, error))
        try:
            reply = self._app(message, context)
            self._states.save(run, context.state)
            return reply
        except Exception as error:
            log.warning("a message of run %d is not answered", run, exc_info=error)
            public = error if isinstance(error, StateError) else DPForestError("see its log")
            return _reply(message, error_content(-1, public))

    @staticmethod
    def _turned_down(message: Message, context: Context, error: DPForestError) -> RecordDict:
        """What is said to a message that the app does not see; it is written down like all others."""
        try:
            number = write_request(message.metadata.message_type, None, context)
            write_answer(number, "refused", str(error), context)
        except Refused as broken:
            error = broken
        return error_content(-1, error, refused=True)


def _reply(message: Message, content: RecordDict) -> Message:
    try:
        return Message(content, reply_to=message)
    except ValueError as error:  # Flower knows no answer to such a kind
        raise NotDelivered(
            f"a message of kind {one_line(message.metadata.message_type, 50)!r} has no answer"
        ) from error


def check_kind(kind: str) -> None:
    """Refuse messages of a kind that nobody answers.

    Raises
    ------
    Refused
    """
    if kind not in (MessageType.QUERY, MessageType.TRAIN, MessageType.EVALUATE):
        raise Refused(f"this node answers no messages of kind {one_line(kind, 50)!r}")


def check_bundle(app: str, version: str) -> None:
    """Refuse the messages of another app or another version: they may mean something else.

    Raises
    ------
    Refused
    """
    name, own = one_line(app, 100), dpforest.__version__
    if name.rpartition("/")[2] != _APP:
        raise Refused(f"this node runs dpforest {own} and no code of a run; the run's bundle is {name or 'unknown'}")
    if version != own:
        raise Refused(
            f"this node runs dpforest {own}, and the run was started with version {one_line(version, 30)}: install the "
            "same on both sides"
        )


def serve(owner: OwnerFile, address: str, insecure: bool) -> None:
    """Be a node until interrupted.

    Parameters
    ----------
    owner : OwnerFile
    address : str
        ``HOST:PORT`` of the SuperLink.
    insecure : bool
        Without TLS.

    Raises
    ------
    DPForestError
        The owner's file, the state or the connection is not as it must be; nothing was spent.
    """
    owner.key()
    describe_limits(owner.context)  # raises where one is none
    owner.schema()
    with alone(owner):
        check_state(owner)
        known = Path(owner.node_config["state-folder"]) / _NODE
        connection = Connection(address, owner.root_certificates, owner.key(), insecure, _read_id(known))
        try:
            number = _open(connection)
            with written_whole(known) as partial:
                partial.write_text(str(number), encoding="ascii")
            _answer_all(connection, number, WarmNode(owner))
        finally:
            connection.close()


def _read_id(path: Path) -> int | None:
    """The node's id when it last ran; of no use where it is damaged, and no harm."""
    try:
        return int(path.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None


def _answer_all(connection: Connection, number: int, node: WarmNode) -> None:
    last = time.monotonic()
    log.info("node %d of the SuperLink at %s answers", number, connection.address)
    while True:
        try:
            if (incoming := _insist(connection, connection.receive)) is not None:
                _insist(connection, partial(connection.reply, node.answer(incoming, number)))
                last = time.monotonic()
                continue
        except NotDelivered as error:
            log.warning("%s", error)
        time.sleep(min(_LONGEST, max(_SHORTEST, _SHARE * (time.monotonic() - last))))


def _insist(connection: Connection, action: Callable[[], _Done]) -> _Done:
    """Try again whenever the SuperLink can be reached again: an answer that was paid for must not be lost."""
    while True:
        try:
            return action()
        except NoConnection as error:
            log.warning("%s; trying again", error)
            log.info("connected again, as node %d", _open(connection))


def _open(connection: Connection) -> int:
    """Connect, however long it takes until the SuperLink can be reached."""
    wait, said = _RETRY, False
    while True:
        try:
            return connection.open()
        except NoConnection as error:
            if not said:
                log.warning("%s; waiting for it", error)
                said = True
            time.sleep(wait)
            wait = min(2 * wait, _LONGEST_RETRY)
