"""`python -m tfwave` is the `tfwave` command."""

from tfwave.cli.app import main

main()
