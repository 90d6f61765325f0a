"""Service information of an AF session: Media-Component-Descriptions checked and put together.

    change = merge(components, descriptions, phone, notes)    what stands afterwards; ServiceInfoError

A description adds to what is known of its component: what it leaves out stays, a Flow-Status of REMOVED takes
a flow or the component away. A fault that a PCRF cannot live with is a ServiceInfoError and changes nothing;
one that it can is counted by name in ``notes``.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from simulators.ipfilter import FilterError, FilterRule, Network, parse_filter
from simulators.rx import (
    FlowStatus,
    FlowUsage,
    MediaComponentDescription,
    MediaSubComponent,
    MediaType,
    RxResult,
)

SIGNALLING_COMPONENT = 0
"""Media-Component-Number of the signalling between phone and P-CSCF."""
USUAL_FILTERS = 2
"""Flow-Descriptions in a sub-component: one for each direction."""

T = TypeVar("T")

_SDP_LINE = re.compile(r"[a-z]=")
_DIRECTIONS = frozenset({"uplink", "downlink"})
_ROLES = frozenset({"offer", "answer", "description"})


class ServiceInfoError(Exception):
    """The service information is refused: with which result, and the fault's name."""

    def __init__(self, name: str, text: str, result: RxResult | None = None) -> None:
        super().__init__(text)
        self.name = name
        """For counting."""
        self.result = result or RxResult.INVALID_SERVICE_INFORMATION
        """The Experimental-Result-Code."""


@dataclass(frozen=True, slots=True)
class Flow:
    """One IP flow."""

    rules: tuple[FilterRule, ...]
    """Its filters; none for signalling that is known by its address alone."""
    usage: FlowUsage
    """What it carries."""
    status: FlowStatus
    """Which directions are open."""


@dataclass(frozen=True, slots=True)
class Component:
    """One medium of a session."""

    media_type: MediaType | None
    """None: never said."""
    status: FlowStatus
    """Which directions are open, for flows that do not say it themselves."""
    bandwidth: tuple[int | None, int | None]
    """Bit/s up and down."""
    flows: Mapping[int, Flow]
    """By flow number."""

    @property
    def is_signalling(self) -> bool:
        """Whether all of it is signalling."""
        return all(one.usage is FlowUsage.AF_SIGNALLING for one in self.flows.values())

    @property
    def needs(self) -> object:
        """What its bearer depends on: filters and bandwidth. Opening and closing a direction is free."""
        return self.bandwidth, {number: one.rules for number, one in self.flows.items()}


_NO_FLOW = Flow((), FlowUsage.NO_INFORMATION, FlowStatus.ENABLED)
_NO_COMPONENT = Component(None, FlowStatus.ENABLED, (None, None), {})
"""What is known of those never heard of: the defaults."""


@dataclass(frozen=True, slots=True)
class Change:
    """What a request makes of the service information."""

    components: dict[int, Component]
    """All that stands now."""
    installed: tuple[int, ...]
    """Numbers of the components that get another bearer than they had."""


def merge(
    known: Mapping[int, Component],
    described: Iterable[MediaComponentDescription],
    phone: Network | None,
    notes: Counter[str],
) -> Change:
    """Put descriptions and what is known together; ServiceInfoError if they are not acceptable."""
    components = dict(known)
    seen: set[int] = set()
    for one in described:
        number = one.media_component_number
        assert number is not None  # required: the decoder saw to it
        if number in seen:
            raise ServiceInfoError("component_repeated", f"component {number} twice")
        seen.add(number)
        component = _merge_component(known.get(number, _NO_COMPONENT), one, phone, notes)
        if component is None:
            components.pop(number, None)
        else:
            components[number] = component
    installed = tuple(
        number
        for number in sorted(seen & components.keys())
        if components[number].needs != known.get(number, _NO_COMPONENT).needs
    )
    return Change(components, installed)


def _merge_component(
    known: Component,
    described: MediaComponentDescription,
    phone: Network | None,
    notes: Counter[str],
) -> Component | None:
    """The component as it is now; None: removed."""
    number = described.media_component_number
    for text in described.codec_data:
        _check_codec_data(text, notes)
    if described.flow_status is FlowStatus.REMOVED:
        return None
    flows = _merge_flows(known, described, phone, notes)
    if not flows:
        raise ServiceInfoError("component_without_flows", f"component {number} has no flow")
    up, down = known.bandwidth
    component = Component(
        media_type=_newer(described.media_type, known.media_type),
        status=_newer(described.flow_status, known.status),
        bandwidth=(
            _newer(described.max_requested_bandwidth_ul, up),
            _newer(described.max_requested_bandwidth_dl, down),
        ),
        flows=flows,
    )
    _check_component(number, component, notes)
    return component


def _merge_flows(
    known: Component,
    described: MediaComponentDescription,
    phone: Network | None,
    notes: Counter[str],
) -> dict[int, Flow]:
    number = described.media_component_number
    flows = dict(known.flows)
    seen: set[int] = set()
    for one in described.media_sub_component:
        flow_number = one.flow_number
        assert flow_number is not None  # required: the decoder saw to it
        if flow_number in seen:
            raise ServiceInfoError("flow_repeated", f"flow {flow_number} of {number} twice")
        seen.add(flow_number)
        if one.flow_status is FlowStatus.REMOVED:
            flows.pop(flow_number, None)
        else:
            flows[flow_number] = _merge_flow(flows.get(flow_number, _NO_FLOW), one, phone, notes)
    return flows


def _merge_flow(
    known: Flow, described: MediaSubComponent, phone: Network | None, notes: Counter[str]
) -> Flow:
    rules = tuple(_parse_rule(text) for text in described.flow_description) or known.rules
    usage = _newer(described.flow_usage, known.usage)
    if not rules and usage is not FlowUsage.AF_SIGNALLING:
        text = f"flow {described.flow_number} has no Flow-Description"
        raise ServiceInfoError("flow_description_missing", text)
    if len(rules) > USUAL_FILTERS:
        notes["flow_descriptions_many"] += 1
    if phone is not None and not all(_is_of_phone(rule, phone) for rule in rules):
        notes["flow_not_of_phone"] += 1
    return Flow(rules, usage, _newer(described.flow_status, known.status))


def _parse_rule(data: bytes) -> FilterRule:
    try:
        rule = parse_filter(data)
    except FilterError as error:
        raise ServiceInfoError("flow_description_malformed", str(error)) from None
    ends = (rule.source, rule.destination)
    if rule.action != "permit" or rule.options or any(one.inverted or one.assigned for one in ends):
        # what TS 29.214 leaves of IPFilterRule: permit, addresses as they are, no options
        text = f"not a filter for Rx: {data!r}"
        raise ServiceInfoError("flow_description_restricted", text, RxResult.FILTER_RESTRICTIONS)
    return rule


def _is_of_phone(rule: FilterRule, phone: Network) -> bool:
    """Whether the terminal's end of a rule can be the phone that the session is of."""
    network = rule.terminal.network
    return network is None or network.overlaps(phone)


def _check_component(number: int | None, component: Component, notes: Counter[str]) -> None:
    signalling = component.is_signalling
    if number == SIGNALLING_COMPONENT and not signalling:
        text = "component 0 carries other flows than signalling"
        raise ServiceInfoError("component_0_not_signalling", text)
    if number != SIGNALLING_COMPONENT and signalling:
        notes["signalling_component_numbered"] += 1
    if component.media_type is None:
        notes["media_type_missing"] += 1
    if component.media_type in (MediaType.AUDIO, MediaType.VIDEO) and None in component.bandwidth:
        notes["bandwidth_missing"] += 1


def _check_codec_data(text: str, notes: Counter[str]) -> None:
    """Direction, role, SDP lines; a P-CSCF may have none of a REGISTER, and end its text like C does."""
    if "\0" in text:
        notes["codec_data_nul"] += 1
    lines = text.rstrip("\0").splitlines()
    direction, role = (*lines, "", "")[:2]
    if (
        direction not in _DIRECTIONS
        or role not in _ROLES
        or not all(_SDP_LINE.match(line) for line in lines[2:] if line)
    ):
        raise ServiceInfoError("codec_data_malformed", f"Codec-Data {text[:80]!r}")
    if not any(lines[2:]):
        notes["codec_data_without_sdp"] += 1


def _newer(said: T | None, known: T) -> T:
    """What a request says, or else what was known."""
    return known if said is None else said
