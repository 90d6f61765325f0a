"""The reference core, altered: what it relays is not what it got. For runs that must notice it.

The alteration is named by IMSBENCH_ALTERED_CORE. Each hits every other INVITE, or its responses:

    identity    P-Asserted-Identity is somebody else's
    offer       the media port in the SDP of the INVITE
    answer      the media port in the SDP of the responses
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any
from unittest import mock

from imsbench.protocol.sip import Message, Request, Response
from simulators.core import proxy, relay
from simulators.core.__main__ import main

STRANGER = ("p-asserted-identity", "<sip:+19999999999@elsewhere.example>")


class Altered:
    """Wraps what the proxy makes of a message that it relays."""

    def __init__(self, alteration: str) -> None:
        self._alteration = alteration
        self._hit: dict[str, bool] = {}

    def hits(self, message: Message) -> bool:
        """Whether this call is one of those that are altered: every other one."""
        if message.call_id not in self._hit:
            self._hit[message.call_id] = len(self._hit) % 2 == 0
        return self._hit[message.call_id]

    def outgoing(self, relayed: Callable[..., Request]) -> Callable[..., Request]:
        """Requests."""

        def altered(*arguments: Any, **keywords: Any) -> Request:
            request = relayed(*arguments, **keywords)
            if request.method == "INVITE" and self.hits(request):
                if self._alteration == "identity":
                    kept = [h for h in request.headers if h[0] != STRANGER[0]]
                    request.headers = [*kept, STRANGER]
                elif self._alteration == "offer":
                    _move_media(request)
            return request

        return altered

    def returning(self, relayed: Callable[..., Response]) -> Callable[..., Response]:
        """Responses."""

        def altered(*arguments: Any, **keywords: Any) -> Response:
            response = relayed(*arguments, **keywords)
            if self._alteration == "answer" and self.hits(response):
                _move_media(response)
            return response

        return altered


def _move_media(message: Message) -> None:
    message.body = message.body.replace(b"m=audio 50000", b"m=audio 40000")


if __name__ == "__main__":
    altered = Altered(os.environ["IMSBENCH_ALTERED_CORE"])
    with (
        mock.patch.object(proxy, "outgoing", altered.outgoing(relay.outgoing)),
        mock.patch.object(proxy, "returning", altered.returning(relay.returning)),
    ):
        sys.exit(main())
