"""Likelihood ratios of membership from shadow models (LiRA, Carlini et al. 2022), for several statistics at once.

Shadow models are grown as the attacked one was, each on a random part of the records, so that the attacker knows
how every statistic of a record is spread over models with and without it. Both are taken to be Gaussian of equal
covariance. What membership moves a record's statistics by is shrunk towards what it moves those of all records by, as
far as the shadow models cannot tell records apart: few of them then do.
"""

from __future__ import annotations

import numpy as np

from dpforest.errors import DPForestError

# Models by which the variance of all records weighs in that of one.
_PRIOR_MODELS = 8.0
_LEAST_MODELS = 4


class Shadows:
    """Statistics of records under shadow models.

    Parameters
    ----------
    statistics : ndarray of shape (n_models, n_records, n_statistics)
        Of each record under each model.
    is_member : ndarray of bool, shape (n_models, n_records)
        Whether the model learned from it.

    Raises
    ------
    DPForestError
        There are too few models.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> is_member = rng.random((40, 50)) < 0.5
    >>> statistics = rng.normal(size=(40, 50, 1)) + 2.0 * is_member[..., None]
    >>> ratios = Shadows(statistics, is_member).leave_one_out()
    >>> bool(ratios[is_member].mean() > ratios[~is_member].mean())
    True
    """

    def __init__(self, statistics: np.ndarray, is_member: np.ndarray) -> None:
        if len(statistics) < _LEAST_MODELS:
            raise DPForestError(f"{len(statistics)} shadow models are too few: use at least {_LEAST_MODELS}")
        self._center, self._unit = _scale(statistics, is_member)
        self._values = (statistics - self._center) / self._unit
        self._member = is_member
        weight = is_member[..., None]
        self._inside, self._outside = (self._values * weight).sum(0), (self._values * ~weight).sum(0)
        self._n_inside, self._n_outside = is_member.sum(0), (~is_member).sum(0)
        self._precision = _precision(self._values, is_member)

    def leave_one_out(self) -> np.ndarray:
        """Log likelihood ratios of each record under each model by all other models; shape (n_models, n_records)."""
        return np.stack([self._ratio(self._values[model], model) for model in range(len(self._values))])

    def ratios(self, statistics: np.ndarray) -> np.ndarray:
        """Those of one more model, whose statistics have shape (n_records, n_statistics)."""
        return self._ratio((statistics - self._center) / self._unit, None)

    def _ratio(self, values: np.ndarray, left_out: int | None) -> np.ndarray:
        inside, outside, n_inside, n_outside = self._inside, self._outside, self._n_inside, self._n_outside
        if left_out is not None:
            own, member = self._values[left_out], self._member[left_out]
            inside, outside = inside - own * member[:, None], outside - own * ~member[:, None]
            n_inside, n_outside = n_inside - member, n_outside - ~member
        shift = _shrunken_shift(inside, outside, n_inside, n_outside)
        n = (n_inside + n_outside)[:, None]
        middle = (inside + outside - n_inside[:, None] * shift) / n + shift / 2
        return np.einsum("ij,ij->i", (values - middle) @ self._precision, shift)


def _scale(statistics: np.ndarray, is_member: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A record's mean of each statistic, and its deviation among models of one kind, shrunk towards that of all."""
    residual = _residuals(statistics, is_member)
    own = (residual**2).sum(0)
    shared = own.mean(0) / len(statistics)
    unit = np.sqrt((own + _PRIOR_MODELS * shared) / (len(statistics) + _PRIOR_MODELS))
    return statistics.mean(0), np.where(unit > 0, unit, 1.0)


def _residuals(values: np.ndarray, is_member: np.ndarray) -> np.ndarray:
    """What is left of values after the mean of the models with the record, or of those without."""
    residual = values.astype(np.float64, copy=True)
    for kind in (is_member, ~is_member):
        count = np.maximum(kind.sum(0), 1)[:, None]
        residual -= kind[..., None] * ((values * kind[..., None]).sum(0) / count)
    return residual


def _precision(values: np.ndarray, is_member: np.ndarray) -> np.ndarray:
    """Inverse covariance of the statistics within a kind, all records together."""
    residual = _residuals(values, is_member).reshape(-1, values.shape[2])
    covariance = residual.T @ residual / max(len(residual), 1)
    # A statistic that never moves says nothing, and two that move alike say it once.
    return np.linalg.inv(covariance + 1e-3 * np.eye(len(covariance)))


def _shrunken_shift(inside: np.ndarray, outside: np.ndarray, n_inside: np.ndarray, n_outside: np.ndarray) -> np.ndarray:
    """What membership moves each record's statistics by, shape (n_records, n_statistics)."""
    known = ((n_inside > 0) & (n_outside > 0))[:, None]
    one, other = np.maximum(n_inside, 1)[:, None], np.maximum(n_outside, 1)[:, None]
    shift = np.where(known, inside / one - outside / other, 0.0)
    error = np.where(known, 1 / one + 1 / other, np.inf)
    if not known.any():
        return np.zeros_like(shift)
    rows = known[:, 0]
    weight = 1 / error[rows]
    mean = (weight * shift[rows]).sum(0) / weight.sum()
    spread = np.maximum((shift[rows] - mean) ** 2 - error[rows], -np.inf).mean(0)
    trust = np.maximum(spread, 0.0) / (np.maximum(spread, 0.0) + error)
    return mean + trust * (shift - mean)
