"""scikit-learn estimators for one table and no federation."""

from dpforest.estimators.classifier import PrivateForestClassifier
from dpforest.estimators.regressor import PrivateForestRegressor

__all__ = ["PrivateForestClassifier", "PrivateForestRegressor"]
