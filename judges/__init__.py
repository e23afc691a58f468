"""Score the reasoning chains of geolocation models (in preparation)."""
