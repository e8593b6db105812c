"""Configuration: composed from conf, the user's own files and those of installed packages."""
