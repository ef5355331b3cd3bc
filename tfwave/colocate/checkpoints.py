"""Where the jobs of a pool stand, in a directory: another process goes on from there.

    pool.json                      the pool's limit; the steps of each job, and its files with their sizes
    save-3/0.index                 what TensorFlow wrote of a job in the third save
    save-3/0.data-00000-of-00001

The files of a save lie in a directory of their own. Only once they are whole, another `pool.json` takes the place
of that before, and what it does not name goes. Who is killed meanwhile leaves the earlier one with all its files.
"""

import re
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, NonNegativeInt, ValidationError

from tfwave.errors import CheckpointError, TfwaveError
from tfwave.files import first_fault, read_file, whole_directory, write_whole
from tfwave.sizes import in_words

_VERSION = 1
_MANIFEST = "pool.json"
_FOLDER = re.compile(r"save-(\d+)")
_PARTS = ".save-*"
"""What a process that was killed left: see `whole_directory`."""
_Ending = Annotated[str, Field(pattern=r"^\.[\w.-]+$")]


class SavedJob(BaseModel):
    """Where a job stands: `files` are those that begin with the prefix, the rest of the name and the bytes."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    steps: NonNegativeInt
    prefix: Annotated[str, Field(pattern=r"^save-\d+/\d+$")]
    files: dict[_Ending, NonNegativeInt]

    @property
    def folder(self) -> str:
        """Where its files lie."""
        return self.prefix.partition("/")[0]


class _Manifest(BaseModel):
    """What ``pool.json`` says; jobs by name."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    version: int
    limit_bytes: int
    jobs: dict[str, SavedJob]


@dataclass(frozen=True)
class Standing:
    """A job between two of its steps: how many it has made, and what writes its state under a prefix."""

    steps: int
    write: Callable[[str], None]


class Checkpoints:
    """The directory of a pool; one process at a time."""

    def __init__(self, directory: Path, limit_bytes: int) -> None:
        """Look what is there; it need not exist.

        Raises:
            CheckpointError: it is of a pool with another limit, malformed, or a file is not whole; names it.
        """
        self._directory = directory
        self._limit_bytes = limit_bytes
        self._jobs: Mapping[str, SavedJob] = _load(directory, limit_bytes)

    def find(self, name: str) -> SavedJob | None:
        """Where a job stood; None if nothing is known of it."""
        return self._jobs.get(name)

    def prefix(self, saved: SavedJob) -> str:
        """For TensorFlow."""
        return str(self._directory / saved.prefix)

    def save(self, standing: Mapping[str, Standing]) -> None:
        """Write jobs, by name, that have gone on since they were last written; the others stay as they are.

        Raises:
            CheckpointError: as their `write`.
            TfwaveError: the place cannot be written; names it.
        """
        new = {name: job for name, job in standing.items() if self._is_new(name, job)}
        if not new:
            return
        folder = self._directory / f"save-{1 + max(self._numbers(), default=0)}"
        with whole_directory(folder) as part:
            for index, job in enumerate(new.values()):
                job.write(str(part / str(index)))
        found = {
            name: SavedJob(
                steps=job.steps, prefix=f"{folder.name}/{index}", files=_sizes(folder / str(index))
            )
            for index, (name, job) in enumerate(new.items())
        }
        try:
            self._replace({**self._jobs, **found})
        except TfwaveError:
            shutil.rmtree(folder, ignore_errors=True)
            raise

    def _is_new(self, name: str, job: Standing) -> bool:
        saved = self._jobs.get(name)
        return saved is None or saved.steps != job.steps

    def _numbers(self) -> list[int]:
        found = [_FOLDER.fullmatch(path.name) for path in self._directory.glob("save-*")]
        return [int(match[1]) for match in found if match]

    def _replace(self, jobs: Mapping[str, SavedJob]) -> None:
        manifest = _Manifest(version=_VERSION, limit_bytes=self._limit_bytes, jobs=dict(jobs))
        write_whole(self._directory / _MANIFEST, (manifest.model_dump_json(indent=1) + "\n").encode())
        self._jobs = jobs
        named = {job.folder for job in jobs.values()}
        stale = [path for path in self._directory.glob("save-*") if _FOLDER.fullmatch(path.name)]
        for path in [*self._directory.glob(_PARTS), *stale]:
            if path.name not in named:
                shutil.rmtree(path, ignore_errors=True)


def _load(directory: Path, limit_bytes: int) -> Mapping[str, SavedJob]:
    path = directory / _MANIFEST
    try:
        manifest = _Manifest.model_validate_json(read_file(path))
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise CheckpointError(f"'{path}' cannot be read: {error.strerror}") from error
    except ValidationError as error:
        raise CheckpointError(
            f"'{path}' is no list of a pool's checkpoints: {first_fault(error)}: {_way_out(directory)}"
        ) from error
    if manifest.version != _VERSION:
        raise CheckpointError(f"'{path}' is of version {manifest.version}; this tfwave reads {_VERSION}")
    if manifest.limit_bytes != limit_bytes:
        raise CheckpointError(
            f"'{path}' is of a pool of {in_words(manifest.limit_bytes)}, and this one has "
            f"{in_words(limit_bytes)}: give it the limit {manifest.limit_bytes}, or another directory"
        )
    for job in manifest.jobs.values():
        _check_whole(directory, job)
    return manifest.jobs


def _check_whole(directory: Path, job: SavedJob) -> None:
    for ending, size in job.files.items():
        path = directory / f"{job.prefix}{ending}"
        found = path.stat().st_size if path.is_file() else None
        if found != size:
            there = "is missing" if found is None else f"has {found:,} of {size:,} bytes"
            raise CheckpointError(f"'{path}' {there}: {_way_out(directory)}")


def _way_out(directory: Path) -> str:
    return f"bring back a copy of '{directory}' that is whole, or give another directory to begin anew"


def _sizes(prefix: Path) -> dict[str, int]:
    files = prefix.parent.glob(f"{prefix.name}.*")
    return {file.name.removeprefix(prefix.name): file.stat().st_size for file in sorted(files)}
