"""Plans as files: binary protobuf, or JSON where the name ends in .json. One plan, one sequence of bytes."""

import json
from pathlib import Path

from google.protobuf import json_format
from google.protobuf.message import DecodeError

from tfwave.errors import PlanError
from tfwave.files import read_file, write_whole
from tfwave.plan.message import from_proto, to_dict, to_proto
from tfwave.plan.plan import Plan
from tfwave.proto import plan_pb2

JSON_SUFFIX = ".json"


def save_plan(plan: Plan, path: str | Path) -> None:
    """Write a plan; JSON if `path` ends in ``.json``, else binary.

    Raises:
        PlanError: it is no plan, as `tfwave.colocate.Results.plan` is none where no job was left to plan.
        TfwaveError: the file cannot be written.
    """
    if not isinstance(plan, Plan):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise PlanError(
            f"what is to be saved to '{path}' is of the type {type(plan).__name__}: give a plan, which jobs that "
            "end in their first steps have not"
        )
    target = Path(path)
    as_json = target.suffix == JSON_SUFFIX
    write_whole(
        target, plan_json(plan).encode() if as_json else to_proto(plan).SerializeToString(deterministic=True)
    )


def load_plan(path: str | Path) -> Plan:
    """Read a plan in either form.

    Raises:
        PlanError: the file cannot be read, is not a plan, or breaks a plan's rules.
    """
    try:
        data = read_file(path)
    except OSError as error:
        raise PlanError(f"cannot read plan '{path}': {error.strerror}") from error
    try:
        return from_proto(_parse(data, Path(path).suffix == JSON_SUFFIX))
    except PlanError as error:
        raise PlanError(f"plan '{path}': {error}") from error


def plan_json(plan: Plan) -> str:
    """The JSON form, ending in a newline."""
    return json.dumps(to_dict(plan), indent=1) + "\n"


def _parse(data: bytes, as_json: bool) -> plan_pb2.Plan:
    try:
        message = json_format.Parse(data, plan_pb2.Plan()) if as_json else plan_pb2.Plan.FromString(data)
    except (json_format.ParseError, DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise PlanError(f"it is not a plan ({' '.join(str(error).split())[:200]})") from error
    if not message.version:
        raise PlanError("it is not a plan: it has no version")
    return message
