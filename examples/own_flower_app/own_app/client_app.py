"""The ClientApp: rows of your own, everything else from dpforest."""

from own_app.table import load
from strategies import PrivateClientApp

app = PrivateClientApp(load)
