#!/usr/bin/env python3
"""`tfwave rewrite` from a checkout: `tools/rewrite_graph.py IN --passes ... -o OUT`."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tfwave.cli.app import main

if __name__ == "__main__":
    sys.argv.insert(1, "rewrite")
    main()
