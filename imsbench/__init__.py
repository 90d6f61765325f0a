"""imsbench: the capacity of an IMS core, as its subscribers see it."""

__version__ = "0.1.0.dev0"
