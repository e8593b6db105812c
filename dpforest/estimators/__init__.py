"""scikit-learn estimators for one table and no federation."""

from dpforest.estimators.classifier import PrivateForestClassifier

__all__ = ["PrivateForestClassifier"]
