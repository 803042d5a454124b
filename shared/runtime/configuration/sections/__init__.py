"""Every section of lucyd.toml as a frozen value; names and nesting are those of the file.

Defaults stand beside the names, so that an empty file is a complete configuration.
"""
