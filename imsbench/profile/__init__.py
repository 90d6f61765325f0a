"""Profiles: one benchmark in one YAML file, checked as a whole before anything starts."""

from imsbench.profile.faults import (
    PLAYED_BY,
    HssFault,
    PcrfFault,
    TargetFault,
    TimedFault,
    faults_of_step,
)
from imsbench.profile.fields import (
    Distribution,
)
from imsbench.profile.load import ProfileError, load_profile, parse_profile, shipped_profiles
from imsbench.profile.loads import BusyHour, CallForm, Load, Storm
from imsbench.profile.model import (
    CallFaults,
    Generator,
    Hss,
    Pcrf,
    Phones,
    Simulators,
    Subscribers,
    Target,
)
from imsbench.profile.phases import (
    Calls,
    Cycle,
    Fill,
    Hold,
    Phase,
    Reattach,
)
from imsbench.profile.plan import Profile, spell_protection
from imsbench.profile.rates import Pace
from imsbench.profile.search import Search, SearchProcedure, Span, TimeLimits
from imsbench.profile.source import Problem
from imsbench.profile.steps import Offer, Step
from imsbench.profile.trial import Trial, TrialLoad
from imsbench.profile.units import (
    parse_duration,
    parse_rate,
    serialize_duration,
    spell_duration,
)

__all__ = [
    "PLAYED_BY",
    "BusyHour",
    "CallFaults",
    "CallForm",
    "Calls",
    "Cycle",
    "Distribution",
    "Fill",
    "Generator",
    "Hold",
    "Hss",
    "HssFault",
    "Load",
    "Offer",
    "Pace",
    "Pcrf",
    "PcrfFault",
    "Phase",
    "Phones",
    "Problem",
    "Profile",
    "ProfileError",
    "Reattach",
    "Search",
    "SearchProcedure",
    "Simulators",
    "Span",
    "Step",
    "Storm",
    "Subscribers",
    "Target",
    "TargetFault",
    "TimeLimits",
    "TimedFault",
    "Trial",
    "TrialLoad",
    "faults_of_step",
    "load_profile",
    "parse_duration",
    "parse_profile",
    "parse_rate",
    "serialize_duration",
    "shipped_profiles",
    "spell_duration",
    "spell_protection",
]
