"""What a target did that phones, HSS and PCRF lived with or refused, each by the name it is counted under.

None of it is a failure by itself: an attempt that failed for it is under "Failures". Some of it is a defect
of the target, some of it only tells how it works; what it is stands beside each.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from imsbench.report.form import cell, table
from imsbench.report.result import RunResult
from imsbench.report.tables import Lines

AT_PHONES = {
    "esp clear_responses_in": "responses in clear to a protected port: its security associations are "
    "deleted too early (TS 33.203 §7.4); refused",
    "esp clear_in": "packets in clear to a protected port, all of them; refused (TS 33.203 §7.1)",
    "clear_connection_to_port_us_by_target": "TCP connections to port_us outside the security "
    "associations; refused (TS 33.203 §7.1)",
    "clear_datagram_to_port_us_by_target": "datagrams to port_us in clear; refused (TS 33.203 §7.1)",
    "datagram_to_port_uc_by_target": "datagrams to port_uc, where a phone takes none (TS 33.203 §7.1)",
    "clear_request_by_target": "requests in clear to a phone with IPsec; refused with 403",
    "response_on_another_connection": "responses on another connection than their request's; left out "
    "(RFC 3261 §18.2.2)",
    "stray_responses": "responses that no request waited for",
    "repeated_challenges": "401 to a REGISTER that had answered the challenge; answered once more",
    "challenged_refreshes": "refreshes that were challenged: each costs authentication and, with IPsec, "
    "a new set of security associations",
    "security_server_without_q": "Security-Server without q: its mechanisms are taken in their order "
    "(RFC 3329 §2.2)",
    "notify_before_2xx": "NOTIFY before the 2xx to its SUBSCRIBE; allowed (RFC 6665 §4.1.2.4)",
    "refresh_without_notify": "refreshes of a subscription after which no NOTIFY came "
    "(RFC 6665 §4.2.1.2 wants one)",
    "notify_for_no_dialog": "NOTIFY of a dialog that the phone does not have; refused with 481",
    "notify_out_of_order": "NOTIFY with a CSeq that is not higher; refused (RFC 3261 §12.2.2)",
    "bad_reginfo": "NOTIFY whose body is no registration information; refused with 400",
    "dialog_without_tag_or_contact": "2xx or NOTIFY without tag or usable Contact (RFC 6665 §4.4.1)",
    "subscription_terminated_by_target": "subscriptions that it ended of its own accord",
    "deregistrations_unanswered": "de-registrations without a final response",
    "own_deregistration_called_": "phones' own de-registrations, notified as another event "
    "(“unregistered” is due: RFC 3680 §5.1)",
    "subscription_active_after_deregistration": "subscriptions left “active” when their registration "
    "had ended (TS 24.229 §5.4.2.1.2)",
    "network_deregistration_": "registrations that the network ended (TS 24.229 §5.1.1.7)",
    "malformed: ": "messages that are no SIP",
}
"""Counters of the phones; one that ends in "_" or a blank is the beginning of several."""
AT_HSS = {
    "schemes_refused": "MAR for another authentication scheme than IMS-AKA; refused",
    "resynchronisations_refused": "MAR whose AUTS is not the phone's own; refused",
    "rtr_failed": "RTR that were not answered",
    "ppr_failed": "PPR that were not answered",
    "refused_": "Diameter requests refused with this result (RFC 6733 §7.1)",
    "cer_without_host_ip_address": "CER without Host-IP-Address (RFC 6733 §5.3.1 wants it); served",
    "framing_errors": "Diameter streams that could not be cut into messages",
    "bad_answers": "Diameter answers that could not be read",
}
"""Counters of the HSS."""
AT_PCRF = {
    "rar_failed": "RAR that were not answered",
    "asr_failed": "ASR that were not answered",
    "sessions_unknown_to_af": "RAR or ASR of sessions that the AF does not know any more",
    "refused_": AT_HSS["refused_"],
    "cer_without_host_ip_address": AT_HSS["cer_without_host_ip_address"],
    "framing_errors": AT_HSS["framing_errors"],
    "bad_answers": AT_HSS["bad_answers"],
}
"""Counters of the PCRF; what was wrong with requests it serves is in its own section."""


@dataclass(frozen=True, slots=True)
class Observation:
    """One thing that was counted."""

    at: str
    """Who counted it: "phones", "HSS", "PCRF"."""
    name: str
    """The counter."""
    count: int
    """How often."""
    text: str
    """What it is, in words."""

    def describe(self) -> str:
        """The observation in one line."""
        return f"{self.name} at the {self.at}: {self.count:,} {self.text}"


def observations(
    phones: Iterable[Mapping[str, int]], hss: Mapping[str, int], pcrf: Mapping[str, int]
) -> list[Observation]:
    """What there is to tell of the counters of a run's workers, HSS and PCRF."""
    together: Counter[str] = Counter()
    for counters in phones:
        together.update(counters)
    return [
        *_told("phones", together, AT_PHONES),
        *_told("HSS", hss, AT_HSS),
        *_told("PCRF", pcrf, AT_PCRF),
    ]


def _told(at: str, counters: Mapping[str, int], texts: Mapping[str, str]) -> Iterator[Observation]:
    for known, text in texts.items():
        several = known.endswith(("_", " "))
        names = sorted(name for name in counters if name.startswith(known)) if several else [known]
        for name in names:
            if count := counters.get(name, 0):
                yield Observation(at, name, count, text)


def conduct(result: RunResult) -> Lines:
    """The whole run's, as a table; nothing where there is nothing to tell."""
    found = observations(
        (worker.counters for worker in result.workers),
        result.hss.counters if result.hss else {},
        result.pcrf.counters if result.pcrf else {},
    )
    if not found:
        return
    yield "## What the target did"
    yield ""
    rows = [[cell(one.name), one.at, f"{one.count:,}", cell(one.text)] for one in found]
    yield from table(("Counted as", "At", "Count", "What it is"), rows, "llr")
    yield ""
    yield "In the whole run, from its first to its last message. None of it is a failure by itself."
