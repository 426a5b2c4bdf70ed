"""``python -m hetero``: the command line of exactly this Python."""

from hetero.cli.main import main

if __name__ == "__main__":
    main()
