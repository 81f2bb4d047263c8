"""Settings of all tests."""

from hypothesis import settings

# No deadline for a single example: the machine may be busy, with the other half of these tests to begin with.
settings.register_profile("no deadline", deadline=None)
settings.load_profile("no deadline")
