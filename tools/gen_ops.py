"""Write `tfwave/graph/ops.pb` again: the signatures of all ops that the installed TensorFlow registers."""

from pathlib import Path
from typing import Any

from tensorflow.python.client import pywrap_tf_session  # pyright: ignore

from tfwave.proto.tensorflow_pb2 import OpDef, OpList

TARGET = Path(__file__).parent.parent / "tfwave" / "graph" / "ops.pb"


def main() -> None:
    """Keep what types and placement need; drop prose."""
    library: Any = pywrap_tf_session
    ops = OpList.FromString(library.TF_GetBuffer(library.TF_GetAllOpList()))
    for op in ops.op:
        _trim(op)
    TARGET.write_bytes(ops.SerializeToString(deterministic=True))
    print(f"{len(ops.op)} ops written to {TARGET}")


def _trim(op: OpDef) -> None:
    for field in ("summary", "description", "deprecation"):
        op.ClearField(field)
    for arg in (*op.input_arg, *op.output_arg):
        arg.ClearField("description")
        arg.ClearField("experimental_full_type")
    for attr in op.attr:
        for field in ("description", "has_minimum", "minimum"):
            attr.ClearField(field)


if __name__ == "__main__":
    main()
