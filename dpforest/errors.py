"""Errors of the library: each names the value, what is allowed and what to do."""


class DPForestError(ValueError):
    """Base of all errors that bad input to dpforest raises."""


class SchemaError(DPForestError):
    """A schema is malformed, or data does not fit the schema."""


class BudgetExceeded(DPForestError):
    """A release would cost more than the privacy budget has left."""


class InvalidForest(DPForestError):
    """A forest (from a file or from the network) breaks a structural rule."""


class PrivacyLeakWarning(UserWarning):
    """Something about the data becomes known without a mechanism: the guarantee is lost."""
