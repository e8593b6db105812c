"""Data sets, one a module; `fl_app.data.registry` lists them."""
