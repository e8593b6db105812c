"""Runs and sweeps: from a composed configuration to run folders, on one engine or by Hydra's launchers."""
