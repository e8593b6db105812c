"""``dpforest node``: a SuperNode that answers with the installed dpforest, whatever code a run brings."""
