"""A program that lets TensorFlow lower graphs and keeps what it had before and after: one case per function.

Run as ``python -m tests.numerics.graph.lowering DIRECTORY``. It writes ``CASE.N.before.pbtxt`` and
``CASE.N.after.pbtxt`` for the N-th graph that the case made TensorFlow lower.
"""

import os
import re
import shutil
import sys
from pathlib import Path

from tests.numerics.graph import lowering_functions, lowering_sessions
from tests.numerics.graph.lowering_sessions import CPUS

CASES = lowering_sessions.CASES | lowering_functions.CASES

_DUMP = re.compile(r"(.+)\.(\d{4})\.graph_opt_pass\..*_LowerFunctionalOpsPass\.pbtxt")


def main(directory: Path) -> None:
    dumps = directory / "dumps"
    os.environ |= {
        "TF_DUMP_GRAPH_PREFIX": str(dumps),
        "TF_DUMP_GRAPH_NAME_FILTER": "*",
        "TF_DUMP_GRAPH_GROUPS": "graph_opt_pass",
        "TF_CPP_MIN_LOG_LEVEL": "3",
        "CUDA_VISIBLE_DEVICES": "",
    }
    import tensorflow as tf

    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * CPUS)
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
    for name, function in CASES.items():
        dumps.mkdir()
        function(tf)
        _keep(dumps, directory / name)
        shutil.rmtree(dumps)


def _keep(dumps: Path, target: Path) -> None:
    """TensorFlow numbers the dumps of a graph in the order of its passes."""
    pairs = [(match, path) for path in sorted(dumps.iterdir()) if (match := _DUMP.fullmatch(path.name))]
    for i, (match, after) in enumerate(pairs):
        (before,) = dumps.glob(f"{match[1]}.{int(match[2]) - 1:04d}.*")
        shutil.copy(before, target.with_suffix(f".{i}.before.pbtxt"))
        shutil.copy(after, target.with_suffix(f".{i}.after.pbtxt"))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
