#!/bin/bash
# Measure on a GPU, part by part; says how with --help.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
cd "$root"
exec "${PYTHON:-python3}" -m tools.gpu.afternoon "$@"
