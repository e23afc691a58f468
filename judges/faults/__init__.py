"""Detectors of what is wrong, or right, with a chain beyond its agreement with a reference."""

from judges.axioms import AXIOMS
from judges.faults.claims import false_tool, injection
from judges.faults.contrast import Contrast, axiomatic
from judges.faults.fault import Fault
from judges.faults.order import conclusion_first
from judges.faults.scope import alternatives, narrowing, restated
from judges.faults.sufficiency import WHERE, sufficiency

__all__ = [
    "AXIOMS",
    "WHERE",
    "Contrast",
    "Fault",
    "alternatives",
    "axiomatic",
    "conclusion_first",
    "false_tool",
    "injection",
    "narrowing",
    "restated",
    "sufficiency",
]
