"""Messages to bytes and back, by MessagePack or by pickle. All processes of a pipeline must use the same."""

from __future__ import annotations

import pickle
from array import array
from typing import Any, Literal, Protocol, get_args

import msgspec
import numpy as np

from mockengine.fanout.batches import IntArray, Message, Wrapped

TransportName = Literal["msgpack", "pickle"]
TRANSPORTS: tuple[TransportName, ...] = get_args(TransportName)


class TransportError(Exception):
    """A frame that is no message of this transport; the text is a sentence."""


class Transport(Protocol):
    """decodes: how many wrapped fields have been unwrapped so far, each all rows at once."""

    name: TransportName
    decodes: int

    def encode(self, message: Message) -> bytes: ...

    def decode(self, frame: bytes) -> Message:
        """Raises TransportError."""

    def wrap(self, value: Any) -> Any:
        """What stands for an opaque value in a message; None stays None."""

    def unwrap(self, field: Any) -> Any:
        """The value of an opaque field; what is not wrapped is the value already."""


class MsgpackTransport:
    """MessagePack of positional structs; what msgspec does not know is wrapped in its pickle."""

    name: TransportName = "msgpack"

    def __init__(self) -> None:
        self.decodes = 0
        self._encoder = msgspec.msgpack.Encoder(enc_hook=_to_wire)
        self._decoder: msgspec.msgpack.Decoder[Message] = msgspec.msgpack.Decoder(Message, dec_hook=_from_wire)

    def encode(self, message: Message) -> bytes:
        return self._encoder.encode(message)

    def decode(self, frame: bytes) -> Message:
        try:
            return self._decoder.decode(frame)
        except msgspec.DecodeError as error:
            raise TransportError(_wrong("MessagePack", frame, error)) from error

    def wrap(self, value: Any) -> Any:
        return None if value is None else Wrapped(pickle.dumps(value))

    def unwrap(self, field: Any) -> Any:
        if not isinstance(field, Wrapped):
            return field
        self.decodes += 1
        return pickle.loads(field.pickled)


class PickleTransport:
    """Whole messages pickled; opaque fields are plain values."""

    name: TransportName = "pickle"

    def __init__(self) -> None:
        self.decodes = 0

    def encode(self, message: Message) -> bytes:
        return pickle.dumps(message, pickle.HIGHEST_PROTOCOL)

    def decode(self, frame: bytes) -> Message:
        try:
            message = pickle.loads(frame)
        except Exception as error:  # bytes that are no pickle raise almost anything
            raise TransportError(_wrong("pickle", frame, error)) from error
        if not isinstance(message, Message):
            raise TransportError(_wrong("pickle", frame, TypeError(f"found {type(message).__name__}")))
        return message

    def wrap(self, value: Any) -> Any:
        return value

    def unwrap(self, field: Any) -> Any:
        if isinstance(field, Wrapped):
            self.decodes += 1
            return pickle.loads(field.pickled)
        return field


def transport_named(name: TransportName) -> Transport:
    return MsgpackTransport() if name == "msgpack" else PickleTransport()


def _wrong(transport: str, frame: bytes, error: Exception) -> str:
    return (
        f"A frame of {len(frame)} bytes is no message over {transport} ({error}); "
        "start all processes with the same transport and version."
    )


def _to_wire(value: Any) -> Any:
    if isinstance(value, array):
        return value.typecode, value.tobytes()
    if isinstance(value, np.ndarray):
        return value.shape, value.dtype.str, value.tobytes()
    raise NotImplementedError(f"no wire form for {type(value).__name__}")


def _from_wire(kind: type, wire: Any) -> Any:
    if kind is IntArray:
        typecode, content = wire
        return array(typecode, content)
    if kind is np.ndarray:
        shape, dtype, content = wire
        return np.frombuffer(content, dtype).reshape(shape)
    raise NotImplementedError(f"no wire form for {kind}")
