"""What fields of a profile are made of: durations, rates, shares, endpoints, distributions.

Durations are seconds once parsed; in YAML, and in ``model_dump``, they are texts with a unit.
"""

from __future__ import annotations

import ipaddress
import re
from math import exp, expm1, log
from typing import Annotated, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
)

from imsbench.profile.units import parse_duration, parse_rate, serialize_duration


def _whole_seconds(value: object) -> int:
    seconds = parse_duration(value)
    if seconds != int(seconds):
        raise ValueError("must be whole seconds: it travels as a SIP Expires value")
    return int(seconds)


def _idle_close(value: object) -> float | None:
    if value == "never":
        return None
    seconds = parse_duration(value)
    if not seconds:
        raise ValueError('must be "never" or a duration above 0')
    return seconds


def _some(value: object) -> object:
    if not isinstance(value, (list, tuple)) or not value:
        raise ValueError("must be a list of at least one")
    return value


def _algorithms(value: object) -> object:
    _some(value)
    assert isinstance(value, (list, tuple))
    # YAML reads an unquoted null as "no value"; here it is the algorithm of that name
    return ["null" if name is None else name for name in value]


def _endpoint(value: str) -> str:
    host, colon, port = value.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    try:
        address = ipaddress.ip_address(host[1:-1] if bracketed else host)
        number = int(port) if colon and port.isascii() and port.isdigit() else 0
    except ValueError:
        number = 0
    else:
        number = number if bracketed == (address.version == 6) else 0
    if not 0 < number < 65536:
        raise ValueError('must be "address:port", IPv6 in brackets: "[2001:db8::1]:5060"')
    return value


def _pattern(value: str) -> str:
    try:
        re.compile(value)
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(f"is no regular expression: {error}") from None
    if not value:
        raise ValueError("must not be empty: it would name every process")
    return value


Integer = Annotated[int, Field(strict=True)]
Boolean = Annotated[bool, Field(strict=True)]
Port = Annotated[int, Field(strict=True, ge=1, le=65535)]
Share = Annotated[float, Field(strict=True, ge=0, le=1)]
Duration = Annotated[
    float,
    BeforeValidator(parse_duration),
    Field(ge=0, le=1e8),
    PlainSerializer(serialize_duration, return_type=str),
]
PositiveDuration = Annotated[Duration, Field(gt=0)]
WholeSeconds = Annotated[
    int,
    BeforeValidator(_whole_seconds),
    Field(ge=1, le=2**32 - 1),  # RFC 3261 §20.19
    PlainSerializer(lambda seconds: f"{seconds}s", return_type=str),
]
IdleClose = Annotated[
    float | None,
    BeforeValidator(_idle_close),
    PlainSerializer(
        lambda seconds: "never" if seconds is None else serialize_duration(seconds), return_type=str
    ),
]
Rate = Annotated[float, BeforeValidator(parse_rate)]
Key = Annotated[str, Field(pattern=r"^[0-9a-fA-F]{32}$")]
Some = BeforeValidator(_some)
"""A list that is not empty; pydantic's own rule complains of the length when an item is wrong."""
Algorithms = BeforeValidator(_algorithms)
"""A list of algorithms that is not empty."""
Endpoint = Annotated[str, AfterValidator(_endpoint)]
Pattern = Annotated[str, AfterValidator(_pattern)]
"""A regular expression."""
Line = Annotated[str, Field(pattern=r"^[ -~]*$", max_length=200)]
"""Printable ASCII: it stands in a SIP header, where a line break would be an injection."""


class Settings(BaseModel):
    """Base of all sections: no unknown key, no change after the check, no NaN."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Distribution(Settings):
    """A random duration, as ``imsbench.distribution`` draws it."""

    kind: Literal["constant", "uniform", "exponential", "lognormal"] = "constant"
    """The shape."""
    mean: Duration = 0.0
    """Arithmetic mean in seconds, whatever the shape."""
    sigma: Annotated[float, Field(strict=True, ge=0, le=5)] = 1.0
    """Shape of the lognormal: standard deviation of the logarithm."""

    @property
    def variance(self) -> float:
        """Of one draw, square seconds."""
        match self.kind:
            case "constant":
                return 0.0
            case "uniform":
                return self.mean**2 / 3
            case "exponential":
                return self.mean**2
            case "lognormal":
                return self.mean**2 * expm1(self.sigma**2)

    @property
    def longest(self) -> float:
        """What one draw in a thousand exceeds, seconds; of constant and uniform, none does."""
        match self.kind:
            case "constant":
                return self.mean
            case "uniform":
                return 2 * self.mean
            case "exponential":
                return self.mean * log(1000)
            case "lognormal":
                return self.mean * exp(_NORMAL_999 * self.sigma - self.sigma**2 / 2)


_NORMAL_999 = 3.0902
"""Quantile 0.999 of the standard normal distribution."""
