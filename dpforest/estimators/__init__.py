"""scikit-learn estimators for one table and no federation."""

from dpforest.estimators.boost import PrivateBoostClassifier, PrivateBoostRegressor
from dpforest.estimators.classifier import PrivateForestClassifier
from dpforest.estimators.regressor import PrivateForestRegressor

__all__ = ["PrivateBoostClassifier", "PrivateBoostRegressor", "PrivateForestClassifier", "PrivateForestRegressor"]
