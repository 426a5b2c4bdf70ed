"""The ``hetero`` command line. One module a command; :mod:`hetero.cli.main` joins them."""
