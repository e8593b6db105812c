"""Noise sources: `Seeded` for simulation and tests, `Secure` for deployment."""

from dpforest.noise.base import Noise, check_scale
from dpforest.noise.secure import Secure
from dpforest.noise.seeded import Seeded

__all__ = ["Noise", "Secure", "Seeded", "check_scale"]
