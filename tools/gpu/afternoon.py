"""Measure on a GPU what tfwave promises: all parts, or those that are named, each for so long at most.

    tools/gpu/run.sh --wheels wheels --out results         make an environment of the wheels, then measure
    tools/gpu/run.sh --python .venv/bin/python             in an environment that there is
    tools/gpu/run.sh --device cpu --python .venv/bin/python waves   small sizes: to see whether it works

It needs no network. Wheels may be in pieces: NAME.whl.aa, NAME.whl.ab, and so on. What was done is kept in --work:
a further call goes on there, first with the parts that were never begun. Results are written as they come, into
--out: gpu-PART.json. What was measured on the CPU says so, and is called cpu-PART.json.
"""

import argparse
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.gpu.environment import Environment, prepared
from tools.gpu.parts import FAILED, LEAST_SECONDS, PARTS, Part, Result, left, run_part, write_json
from tools.gpu.pieces import NotWholeError

ROOT = Path(__file__).resolve().parents[2]
GPU, CPU = "gpu", "cpu"
SEE = PARTS[0].name
LOG_LINES = 12
"""Of a part that failed, that are said."""
RESULTS = ROOT / "tools" / "bench" / "results"
WORK = ROOT / "build" / "gpu"


@dataclass(frozen=True)
class Afternoon:
    """Where the parts run, and where their results go."""

    environment: Environment
    device: str
    out: Path
    results: Mapping[str, Result]

    def run(self, names: Sequence[str], seconds: float) -> bool:
        """What is left of the parts, within so many seconds; whether all of it is done."""
        end = time.monotonic() + seconds
        parts = left(names, self.results)
        for number, part in enumerate(parts):
            rest = end - time.monotonic()
            if rest < LEAST_SECONDS:
                say(f"no time for {', '.join(each.name for each in parts[number:])}: call it again")
                return False
            self._run(part, min(part.seconds, rest))
            if part.name == SEE and not self._sees():
                say("TensorFlow sees no GPU, so nothing more is measured: --device cpu tries it on the CPU")
                return False
        return not left(names, self.results)

    def _run(self, part: Part, seconds: float) -> None:
        result = self.results[part.name]
        say(f"{part.name}: {part.about}; at most {seconds:.0f} s")
        result.begun()
        log = result.folder / "log"
        begin = time.monotonic()
        status = run_part(
            [self.environment.python, "-m", part.module, self.device, str(result.folder)],
            os.environ | self.environment.variables | {"PYTHONPATH": str(ROOT)},
            seconds,
            log,
            lambda: self._tell(result),
        )
        result.ended(status, time.monotonic() - begin)
        self._tell(result)
        say(f"{part.name}: {status} after {time.monotonic() - begin:.0f} s; {self.out / result.name}")
        if status == FAILED:
            say("\n".join(log.read_text(errors="replace").splitlines()[-LOG_LINES:]))

    def _sees(self) -> bool:
        """Whether TensorFlow sees what is to be measured."""
        return self.device == CPU or bool(self.results[SEE].rows.get("devices", {}).get("gpus"))

    def _tell(self, result: Result) -> None:
        known = {"libraries": self.environment.libraries, "linked": self.environment.linked}
        told = result.told(known)
        if told is not None:
            write_json(self.out / result.name, told)


def say(line: str) -> None:
    """On standard error, now."""
    print(line, file=sys.stderr, flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="tools/gpu/run.sh", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    names = [part.name for part in PARTS]
    add("parts", nargs="*", metavar="PART", help=f"of {', '.join(names)}; all, if none is named")
    add("--device", choices=(GPU, CPU), default=GPU)
    add("--wheels", type=Path, metavar="DIR", help="whole, or in pieces")
    add(
        "--python", default=sys.executable, help="one with TensorFlow and what tfwave needs, without --wheels"
    )
    add("--out", type=Path, help=f"of results; {RESULTS.relative_to(ROOT)} for a GPU's, else in --work")
    add("--work", type=Path, default=WORK, help=f"what is kept between calls: {WORK.relative_to(ROOT)}")
    add("--seconds", type=float, default=1500.0, help="of this call, at most: 1500")
    return parser


def main(words: Sequence[str]) -> int:
    """Prepare, measure, and say which parts are done; 1 if some are not."""
    begin = time.monotonic()
    parser = _parser()
    given = parser.parse_args(words)
    unknown = sorted(set(given.parts) - {part.name for part in PARTS})
    if unknown:
        parser.error(f"there is no part '{unknown[0]}': choose of {', '.join(part.name for part in PARTS)}")
    work = (given.work / given.device).absolute()
    out = (given.out or (RESULTS if given.device == GPU else work)).absolute()
    for folder in (work, out):
        folder.mkdir(parents=True, exist_ok=True)
    try:
        environment = prepared(given.wheels, given.python, work, given.device == GPU, say)
    except (NotWholeError, subprocess.SubprocessError) as error:
        say(str(error))
        return 1
    results = {part.name: Result(part, given.device, work / "parts" / part.name) for part in PARTS}
    afternoon = Afternoon(environment, given.device, out, results)
    all_done = afternoon.run(given.parts, given.seconds - (time.monotonic() - begin))
    for part in PARTS:
        state = results[part.name].state
        say(f"{part.name:10} {state.get('status', 'not begun'):10} {state.get('seconds', [])}")
    return 0 if all_done else 1


def _end(number: int, frame: object) -> None:
    """Told to end, end the part that runs, too."""
    sys.exit(128 + number)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, _end)
    sys.exit(main(sys.argv[1:]))
