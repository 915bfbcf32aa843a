"""What sessions and contexts make without asking anybody: messages and destinations."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from shoal.jms.bodies import MapMessage, ObjectMessage, TextMessage
from shoal.jms.destination import Queue, Topic
from shoal.jms.java_names import JavaNames
from shoal.jms.message import Message
from shoal.jms.streams import BytesMessage, StreamMessage


class Making(JavaNames, ABC):
    """Makes messages and destinations, until it is closed."""

    @abstractmethod
    def _check(self) -> None:
        """Refuse to work once it is closed."""

    def create_message(self) -> Message:
        """A message without a body."""
        self._check()
        return Message()

    def create_text_message(self, text: str | None = None) -> TextMessage:
        """A message with a text."""
        self._check()
        return TextMessage(text)

    def create_bytes_message(self, content: bytes | None = None) -> BytesMessage:
        """A message of bytes."""
        self._check()
        return BytesMessage(content)

    def create_map_message(self, entries: Mapping[str, Any] | None = None) -> MapMessage:
        """A message of named values."""
        self._check()
        return MapMessage(entries)

    def create_stream_message(self, content: list[Any] | None = None) -> StreamMessage:
        """A message of values in a row."""
        self._check()
        return StreamMessage(content)

    def create_object_message(self, object: Any = None) -> ObjectMessage:
        """A message with an object."""
        self._check()
        return ObjectMessage(object)

    def create_topic(self, name: str) -> Topic:
        """The topic of this name; Narada's form `/country=DK/city=*` is understood."""
        self._check()
        return Topic(name)

    def create_queue(self, name: str) -> Queue:
        """The queue of this name."""
        self._check()
        return Queue(name)
