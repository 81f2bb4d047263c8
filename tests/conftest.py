"""Settings of all tests."""

from hypothesis import Phase, settings

# No deadline for a single example: the machine may be busy, with the other half of these tests to begin with.
settings.register_profile("no deadline", deadline=None)
# For `mutants.py`, which only asks whether a test fails: the example is not made smaller.
settings.register_profile("mutants", deadline=None, phases=set(Phase) - {Phase.shrink, Phase.explain})
settings.load_profile("no deadline")
