"""The GPUs of this machine, as their driver tells of them."""

import subprocess
from dataclasses import dataclass

ASK_SECONDS = 30.0
_FIELDS = (
    "name",
    "driver_version",
    "memory.total",
    "memory.used",
    "pcie.link.gen.max",
    "pcie.link.width.max",
)


@dataclass(frozen=True)
class Gpu:
    """One of them; memory in MiB, the link to the host by its generation and width."""

    name: str
    driver: str
    memory_mb: int
    used_mb: int
    link: str


def gpus() -> tuple[Gpu, ...]:
    """All of them; none where the driver's program is not there, or fails."""
    command = ["nvidia-smi", f"--query-gpu={','.join(_FIELDS)}", "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=ASK_SECONDS, check=True)
    except (OSError, subprocess.SubprocessError):
        return ()
    return tuple(parsed(line) for line in done.stdout.splitlines() if line.strip())


def parsed(line: str) -> Gpu:
    """A GPU by its line; 0 for what the driver does not tell."""
    name, driver, total, used, generation, width = [field.strip() for field in line.split(",")]
    return Gpu(name, driver, _number(total), _number(used), f"PCIe {generation} x{width}")


def used_mb() -> int | None:
    """MiB that all processes have of the first GPU; None where there is none."""
    return next((gpu.used_mb for gpu in gpus()), None)


def _number(text: str) -> int:
    return int(text) if text.isdecimal() else 0
