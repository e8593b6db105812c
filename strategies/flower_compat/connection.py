"""A SuperNode's end of a SuperLink, in a process that answers by itself and never sees a run's code."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import partial
from pathlib import Path
from typing import TypeVar

import httpx
from cryptography.hazmat.primitives.asymmetric import ec
from flwr.app import Message
from flwr.app.message import remove_content_from_message
from flwr.common.constant import HEARTBEAT_DEFAULT_INTERVAL
from flwr.common.serde import message_from_proto, message_to_proto
from flwr.proto import fleet_pb2 as fleet
from flwr.proto.heartbeat_pb2 import SendNodeHeartbeatRequest
from flwr.proto.node_pb2 import Node
from flwr.proto.run_pb2 import GetRunRequest
from flwr.supercore.address import parse_address
from flwr.supercore.error import FlowerError
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects, get_object_tree, no_object_id_recompute
from flwr.supercore.inflatable.inflatable_protobuf_utils import (
    make_confirm_message_received_fn_protobuf,
    make_pull_object_fn_protobuf,
    make_push_object_fn_protobuf,
)
from flwr.supercore.inflatable.inflatable_utils import (
    ObjectPushError,
    pull_and_inflate_object_from_tree,
    push_objects,
)
from flwr.supercore.interceptors import RuntimeVersionHttpInterceptor
from flwr.supercore.primitives.asymmetric import generate_key_pairs, public_key_to_bytes
from flwr.supernode.fleet_http_client import FleetHttpClient
from flwr.supernode.node_auth_http_interceptor import NodeAuthHttpInterceptor

from dpforest.errors import DPForestError, one_line
from strategies.flower_compat import identify_message


class NoConnection(DPForestError):
    """The SuperLink cannot be reached at the moment: to be tried again."""


class TurnedAway(DPForestError):
    """The SuperLink, or its certificate, is not what this node was set up for: nothing to be tried again."""


class NotDelivered(DPForestError):
    """One message could not be received or answered: its run has ended, or parts of it are gone."""


@dataclass(frozen=True)
class Incoming:
    """A message to this node.

    Attributes
    ----------
    message : Message
    run : int
        Of Flower's.
    app, version : str
        Of the bundle that the run brings, as the SuperLink says. The bundle itself is never asked for.
    """

    message: Message
    run: int
    app: str
    version: str


_Request = TypeVar("_Request")
_Response = TypeVar("_Response")
_SKEW = 10.0  # seconds; a SuperLink accepts signatures that are a little older than this


class Connection:
    """A SuperNode's end of a SuperLink, for a process that answers by itself.

    Reason: a SuperNode fetches the bundle of each run, installs it and starts a process for each message, which imports
    the run's code; neither is wanted here. So this speaks its protocol (the Fleet API) with Flower's own client, and
    leaves out all that has to do with bundles. It is what `flwr.supernode.start_client_internal` and
    `flwr.supernode.fleet_http_connection` do together.

    Breaks if the protocol changes with Flower's version: the SuperLink then refuses the requests, and `open` says so.

    Parameters
    ----------
    address : str
        ``HOST:PORT`` of the SuperLink's Fleet API.
    root_certificates : str, optional
        File of the authority of the SuperLink's certificate; else those of the system.
    key : elliptic curve private key, optional
        That the SuperLink knows this node by. Without it the node is a new one each time.
    insecure : bool
        Without TLS.
    before : int, optional
        The node's id when it last ran. A node that ended without a word counts as connected for a minute, in which no
        other may take its place; with its id it goes on at once.
    """

    def __init__(
        self,
        address: str,
        root_certificates: str | None = None,
        key: ec.EllipticCurvePrivateKey | None = None,
        insecure: bool = False,
        before: int | None = None,
    ) -> None:
        if parse_address(address) is None:
            raise TurnedAway(f"the SuperLink's address {address!r} must be HOST:PORT")
        self.address = address
        self._registers = key is None
        private, public = generate_key_pairs() if key is None else (key, key.public_key())
        self._public = public_key_to_bytes(public)
        self._node: Node | None = None
        self._before = before if key is not None else None
        self._stopped = threading.Event()
        self._runs: dict[int, tuple[str, str]] = {}
        try:
            self._client = FleetHttpClient.from_server_address(
                address,
                insecure,
                None if root_certificates is None else Path(root_certificates).read_bytes(),
                interceptors=[
                    RuntimeVersionHttpInterceptor(component_name="SuperNode"),
                    NodeAuthHttpInterceptor(private, public),
                ],
            )
        except (OSError, ValueError) as error:  # of SSL too: what is in the file is no certificate
            raise TurnedAway(f"root-certificates {root_certificates} cannot be read: {error}") from error

    def open(self) -> int:
        """Become a node of the SuperLink's, again where this was one before; the node's id.

        Raises
        ------
        NoConnection
        TurnedAway
            The certificate is not accepted, or the SuperLink does not accept this node.
        """
        node = self._go_on() or self._begin()
        first = self._node is None
        self._before, self._node = node, Node(node_id=node)
        if first:
            threading.Thread(target=self._beat, name="heartbeat", daemon=True).start()
        return node

    def _go_on(self) -> int | None:
        """Be the node that this one was before; None where the SuperLink does not know it by this key."""
        if self._before is None:
            return None
        with suppress(TurnedAway, NotDelivered):
            if self._send_beat(Node(node_id=self._before)):
                return self._before
        return None

    def _begin(self) -> int:
        if self._registers:
            with suppress(
                TurnedAway, NotDelivered
            ):  # it knows this node already, or does not want it, as it then says below
                self._call(self._client.RegisterNode, fleet.RegisterNodeFleetRequest(public_key=self._public))
        request = fleet.ActivateNodeRequest(public_key=self._public, heartbeat_interval=HEARTBEAT_DEFAULT_INTERVAL)
        return int(self._call(self._client.ActivateNode, request).node_id)

    def _send_beat(self, node: Node) -> bool:
        request = SendNodeHeartbeatRequest(node=node, heartbeat_interval=HEARTBEAT_DEFAULT_INTERVAL)
        return bool(self._call(self._client.SendNodeHeartbeat, request).success)

    def receive(self) -> Incoming | None:
        """The next message, if there is one.

        Raises
        ------
        NoConnection, TurnedAway
        NotDelivered
            There was one, of which parts are gone.
        """
        pulled = self._call(self._client.PullMessages, fleet.PullMessagesRequest(node=self._here))
        if not pulled.messages_list:
            return None
        try:
            run, tree = message_from_proto(pulled.messages_list[0]).metadata.run_id, pulled.message_object_trees[0]
            message = pull_and_inflate_object_from_tree(
                tree,
                make_pull_object_fn_protobuf(partial(self._call, self._client.PullObject), self._here, run),
                make_confirm_message_received_fn_protobuf(
                    partial(self._call, self._client.ConfirmMessageReceived), self._here, run
                ),
                return_type=Message,
            )
        except DPForestError:
            raise
        except Exception as error:  # whatever a SuperLink sends must not end the node
            raise NotDelivered(f"a message cannot be read: {type(error).__name__}: {error}") from error
        identify_message(message, tree.object_id)
        return Incoming(message, run, *self._bundle(run))

    def reply(self, reply: Message) -> None:
        """Send the answer to a message.

        Raises
        ------
        NoConnection, TurnedAway
        NotDelivered
            The run has ended meanwhile.
        """
        run = reply.metadata.run_id
        identify_message(reply, reply.object_id)
        with no_object_id_recompute():
            request = fleet.PushMessagesRequest(
                node=self._here,
                messages_list=[message_to_proto(remove_content_from_message(reply))],
                message_object_trees=[get_object_tree(reply)],
                clientapp_runtime_list=[0.0],  # how long it took is nobody's business
            )
            taken = self._call(self._client.PushMessages, request)
            try:
                push_objects(
                    get_all_nested_objects(reply),
                    make_push_object_fn_protobuf(
                        partial(self._call, self._client.PushObject), self._here, run, taken.session_id
                    ),
                    object_ids_to_push=set(taken.objects_to_push),
                )
            except ObjectPushError as error:
                raise NotDelivered(f"an answer to run {run} was not taken: {error}") from error

    def close(self) -> None:
        """Say to the SuperLink that this node leaves, if it can be reached."""
        self._stopped.set()
        if self._node is not None:
            node = self._node.node_id
            with suppress(DPForestError):
                self._call(self._client.DeactivateNode, fleet.DeactivateNodeRequest(node_id=node))
                if self._registers:
                    self._call(self._client.UnregisterNode, fleet.UnregisterNodeFleetRequest(node_id=node))
        self._client.close()

    @property
    def _here(self) -> Node:
        assert self._node is not None, "open() comes first"
        return self._node

    def _bundle(self, run: int) -> tuple[str, str]:
        if run not in self._runs:
            found = self._call(self._client.GetRun, GetRunRequest(node=self._node, run_id=run)).run
            self._runs[run] = found.fab_id, found.fab_version
        return self._runs[run]

    def _beat(self) -> None:
        """Say that the node is there, also while it is busy with an answer."""
        while not self._stopped.wait(HEARTBEAT_DEFAULT_INTERVAL / 2):
            with suppress(DPForestError):  # whoever waits for messages meets the same, and says it
                self._send_beat(self._here)  # which also brings back a node that was counted among the gone

    def _call(self, method: Callable[[_Request], _Response], request: _Request) -> _Response:
        try:
            try:
                return method(request)
            except httpx.RemoteProtocolError:  # a connection that was kept open has been closed meanwhile
                return method(request)
        except (httpx.HTTPError, ValueError) as error:
            raise self._in_words(error) from error

    def _in_words(self, error: Exception) -> DPForestError:
        if isinstance(error, httpx.HTTPStatusError):
            return self._refusal(error.response)
        if (broken := _of_tls(error)) is not None:
            why = getattr(broken, "verify_message", None) or broken.reason or str(broken)
            return TurnedAway(
                f"the certificate of the SuperLink at {self.address} is not accepted ({why}): check root-certificates, "
                "the address, the clock of this machine, and until when the certificate is valid"
            )
        return NoConnection(f"the SuperLink at {self.address} cannot be reached: {error or type(error).__name__}")

    def _refusal(self, response: httpx.Response) -> DPForestError:
        if response.status_code >= httpx.codes.INTERNAL_SERVER_ERROR:
            return NoConnection(f"the SuperLink at {self.address} is not ready (status {response.status_code})")
        ahead = _ahead(response)
        if response.status_code == httpx.codes.UNAUTHORIZED and abs(ahead) > _SKEW:
            where = "ahead of" if ahead > 0 else "behind"
            return TurnedAway(
                f"the clock of this machine is {abs(ahead):.0f} s {where} that of the SuperLink at {self.address}, "
                "which therefore does not believe this node's signatures: set the clock"
            )
        if response.status_code == httpx.codes.UNAUTHORIZED:
            return TurnedAway(f"the SuperLink at {self.address} does not accept the key of this node: {_REGISTER}")
        said = FlowerError.from_json(response.text)
        words = f"{said.message} {said.public_details or ''}" if said else response.text[:200]
        if self._node is not None:  # of a run that has ended, for instance
            return NotDelivered(one_line(f"the SuperLink at {self.address} refuses: {words.strip()}"))
        return TurnedAway(
            one_line(f"the SuperLink at {self.address} turns this node away: {words.strip()}; {_REGISTER}")
        )


_REGISTER = "private-key must be that of the public key given to flwr supernode register, and of no other running node"


def _of_tls(error: BaseException | None) -> ssl.SSLError | None:
    """The error of TLS behind another one."""
    while error is not None and not isinstance(error, ssl.SSLError):
        error = error.__cause__ or error.__context__
    return error


def _ahead(response: httpx.Response) -> float:
    """Seconds that this machine's clock is ahead of the one that answered; 0 where it does not say."""
    try:
        theirs = parsedate_to_datetime(response.headers["date"])
    except (KeyError, ValueError, TypeError):
        return 0.0
    return (datetime.now(UTC) - theirs).total_seconds()
