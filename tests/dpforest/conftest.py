"""Settings of Hypothesis for all tests of the library."""

from hypothesis import settings

# Kernels compile at their first call, which no deadline can foresee; the same examples every time.
settings.register_profile("dpforest", deadline=None, derandomize=True)
settings.load_profile("dpforest")
