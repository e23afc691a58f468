"""Score the reasoning chains of geolocation models (in preparation)."""

from judges.chains import Conclusion, Point, ReasoningChain, parse_chain

__all__ = ["Conclusion", "Point", "ReasoningChain", "parse_chain"]
