"""Keys of listeners and connections."""

from __future__ import annotations

from tidelog.kernel.config.key import ConfigKey
from tidelog.kernel.config.listeners import Listener, advertised_listeners, listener_names, listeners
from tidelog.kernel.config.types import INT_MAX, integer, limits_by_host, long, names_by_listener, nullable

LISTENERS = ConfigKey(
    name="listeners",
    type=listeners(),
    default=(Listener("PLAINTEXT", "", 9092),),
    documentation="Where the broker listens. An empty host means every interface; port 0 lets the system "
    "pick a free port, which the ready file and the banner tell.",
)
ADVERTISED_LISTENERS = ConfigKey(
    name="advertised.listeners",
    type=nullable(advertised_listeners()),
    default=None,
    documentation="The addresses that clients are told to connect to, by listener name; port 0 stands for "
    "the port that is bound. Unset: the address that is listened at.",
)
CONTROLLER_LISTENER_NAMES = ConfigKey(
    name="controller.listener.names",
    type=listener_names(),
    default=(),
    documentation="Listeners that Kafka reserves for its controllers. This broker needs none: a listener "
    "of such a name is not opened.",
)
LISTENER_SECURITY_PROTOCOL_MAP = ConfigKey(
    name="listener.security.protocol.map",
    type=names_by_listener("NAME:PROTOCOL pairs between commas; a listener that is opened needs PLAINTEXT"),
    default={},
    documentation="Security protocols of the listeners. A name that is missing here and is no protocol's "
    "name itself is PLAINTEXT, the one protocol that this broker has a part for.",
)
LISTENER_CODEC_MAP = ConfigKey(
    name="listener.codec.map",
    type=names_by_listener("NAME:codec pairs between commas"),
    default={},
    documentation="Wire protocols of the listeners, by the names that plugins offer them under; `kafka` "
    "for a listener that is missing here.",
)
SOCKET_SEND_BUFFER_BYTES = ConfigKey(
    name="socket.send.buffer.bytes",
    type=integer(-1),
    default=102400,
    documentation="The system's send buffer per connection (SO_SNDBUF), in bytes; -1 leaves it to the "
    "system.",
)
SOCKET_RECEIVE_BUFFER_BYTES = ConfigKey(
    name="socket.receive.buffer.bytes",
    type=integer(-1),
    default=102400,
    documentation="The system's receive buffer per connection (SO_RCVBUF), in bytes; -1 leaves it to the "
    "system.",
)
SOCKET_REQUEST_MAX_BYTES = ConfigKey(
    name="socket.request.max.bytes",
    type=integer(1),
    default=104857600,
    documentation="The largest request that is taken, in bytes; a connection that announces a larger one "
    "is closed.",
)
SOCKET_LISTEN_BACKLOG_SIZE = ConfigKey(
    name="socket.listen.backlog.size",
    type=integer(1),
    default=50,
    documentation="Connections that the system holds ready before they are accepted; its own limit may be "
    "lower.",
)
MAX_CONNECTIONS = ConfigKey(
    name="max.connections",
    type=integer(0),
    default=INT_MAX,
    dynamic=True,
    documentation="Connections that may be open at once; further ones wait until one ends.",
)
MAX_CONNECTIONS_PER_IP = ConfigKey(
    name="max.connections.per.ip",
    type=integer(0),
    default=INT_MAX,
    dynamic=True,
    documentation="Connections that one address may have open at once; further ones are closed at once.",
)
MAX_CONNECTIONS_PER_IP_OVERRIDES = ConfigKey(
    name="max.connections.per.ip.overrides",
    type=limits_by_host(),
    default={},
    documentation="Other limits for single addresses or host names, in place of `max.connections.per.ip`.",
)
CONNECTIONS_MAX_IDLE_MS = ConfigKey(
    name="connections.max.idle.ms",
    type=long(-1),
    default=600000,
    documentation="A connection without traffic is closed after this many milliseconds, also while a request "
    "of it waits; -1 keeps it open for ever. No fetch waits longer for records than that.",
)
SOCKET_BUSY_POLL_US = ConfigKey(
    name="socket.busy.poll.us",
    type=integer(0, 10_000),
    default=400,
    documentation="How many microseconds the broker polls for the next request of a client in a closed loop "
    "of small requests (up to 32 KB, each sent as soon as the last is answered), instead of sleeping until "
    "it arrives: for one such client at a time, and only while no task of the machine waits for a processor. "
    "0: never.",
)
DECOMPRESSION_MEMORY_BYTES = ConfigKey(
    name="decompression.memory.bytes",
    type=long(1024 * 1024),
    default=128 * 1024 * 1024,
    documentation="How many bytes of memory may be used at the same time to unpack records: to check what "
    "producers send, to find offsets by time, and to convert batches for old consumers. What does not fit "
    "waits; a batch that takes more than that is unpacked alone.",
)
