"""What became of each fault that struck: counted here, written as JSON, told in docs/reliability.md."""

import json
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path

WENT_ON = "training goes on"


@dataclass(frozen=True, order=True)
class Outcome:
    """Of one fault under one enforcer; `ended` names the error that the struck step ended with, if it did."""

    scene: str
    fault: str
    enforcer: str
    ended: str


@dataclass
class Ledger:
    """How often each outcome was seen, and in how many steps of training of each scene."""

    seen: Counter[Outcome] = field(default_factory=Counter[Outcome])
    steps: Counter[str] = field(default_factory=Counter[str])

    def write(self, path: Path, seed: int) -> None:
        rows = [asdict(outcome) | {"times": times} for outcome, times in sorted(self.seen.items())]
        document = {"seed": seed, "steps": dict(sorted(self.steps.items())), "outcomes": rows}
        path.write_text(json.dumps(document, indent=1) + "\n")
