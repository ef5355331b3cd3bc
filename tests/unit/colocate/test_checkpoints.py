"""Where jobs of a pool stand: written whole or not at all, and refused by name where it is not whole."""

import ctypes
import json
import random
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.fuzz.damage import damaged
from tests.unit.native.native_ledger import native_ledger
from tests.unit.native.native_program import needs_compiler
from tests.unit.test_files import files_of_at_most
from tfwave.colocate.checkpoints import Checkpoints, Standing
from tfwave.colocate.job import Job, SessionStep
from tfwave.colocate.life import Life
from tfwave.colocate.sharing import Sharing
from tfwave.errors import CheckpointError, TfwaveError

LIMIT = 1 << 20


class Text:
    """A job's state that is a text; it may be that the job goes on while it is written."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.stepping: Life | None = None

    def write(self, prefix: str) -> None:
        Path(f"{prefix}.index").write_text(self.text)
        if self.stepping is not None:
            self.stepping.make(abs, (1,))

    def read(self, prefix: str) -> None:
        self.text = Path(f"{prefix}.index").read_text()


def fails(prefix: str) -> None:
    Path(f"{prefix}.index").write_text("half")
    raise CheckpointError("the disk is full")


def stands(steps: int, text: str) -> Standing:
    return Standing(steps, Text(text).write)


def texts(directory: Path, *names: str) -> Mapping[str, tuple[int, str] | None]:
    there, found = Checkpoints(directory, LIMIT), dict[str, tuple[int, str] | None]()
    for name in names:
        saved = there.find(name)
        found[name] = saved and (saved.steps, Path(f"{there.prefix(saved)}.index").read_text())
    return found


def test_a_directory_that_is_not_there_has_no_job(tmp_path: Path) -> None:
    assert texts(tmp_path / "none", "a") == {"a": None}
    assert list(tmp_path.iterdir()) == []


def test_each_job_is_as_it_was_saved_last(tmp_path: Path) -> None:
    """One that has made no step since is not written again."""
    there = Checkpoints(tmp_path, LIMIT)
    there.save({"a": stands(1, "a1"), "b/..": stands(2, "b2")})
    there.save({"a": stands(3, "a3"), "c": stands(0, "c0")})
    there.save({"a": stands(3, "not written")})
    assert texts(tmp_path, "a", "b/..", "c") == {"a": (3, "a3"), "b/..": (2, "b2"), "c": (0, "c0")}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["pool.json", "save-1", "save-2"]
    there.save({"b/..": stands(4, "b4")})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["pool.json", "save-2", "save-3"]


def test_a_save_that_fails_leaves_the_one_before(tmp_path: Path) -> None:
    there = Checkpoints(tmp_path, LIMIT)
    there.save({"a": stands(1, "a1")})
    with pytest.raises(CheckpointError, match="the disk is full"):
        there.save({"a": stands(2, "a2"), "b": Standing(1, fails)})
    assert texts(tmp_path, "a", "b") == {"a": (1, "a1"), "b": None}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["pool.json", "save-1"]


def test_a_list_that_has_no_room_leaves_nothing_of_its_save(tmp_path: Path) -> None:
    """Else each save that is tried on a full disk would leave another copy of all jobs."""
    there = Checkpoints(tmp_path, LIMIT)
    there.save({"a": stands(1, "one")})
    before = sorted(tmp_path.rglob("*"))
    with files_of_at_most(10), pytest.raises(TfwaveError, match=r"cannot write '.*pool\.json'"):
        there.save({"a": stands(2, "two")})
    assert sorted(tmp_path.rglob("*")) == before
    assert texts(tmp_path, "a") == {"a": (1, "one")}


def test_what_a_killed_process_left_is_no_checkpoint_and_goes_with_the_next(tmp_path: Path) -> None:
    """It was killed before a save was whole, and before `pool.json` named one; other files are the user's."""
    Checkpoints(tmp_path, LIMIT).save({"a": stands(1, "a1")})
    kept = [tmp_path / "save-it" / "mine", tmp_path / "notes" / "mine"]
    for part in (tmp_path / ".save-2.xyz" / "0.index", tmp_path / "save-2" / "0.index", *kept):
        part.parent.mkdir()
        part.write_text("half")
    there = Checkpoints(tmp_path, LIMIT)
    there.save({"b": stands(1, "b1")})
    assert texts(tmp_path, "a", "b") == {"a": (1, "a1"), "b": (1, "b1")}
    left = sorted(path.name for path in tmp_path.iterdir())
    assert left == ["notes", "pool.json", "save-1", "save-3", "save-it"]
    assert all(path.exists() for path in kept)


def test_a_file_that_is_not_whole_is_refused_by_name(tmp_path: Path) -> None:
    Checkpoints(tmp_path, LIMIT).save({"a": stands(1, "whole")})
    file = tmp_path / "save-1" / "0.index"
    file.write_text("who")
    with pytest.raises(
        CheckpointError, match=rf"'{file}' has 3 of 5 bytes: bring back a copy of '{tmp_path}'"
    ):
        Checkpoints(tmp_path, LIMIT)
    file.unlink()
    with pytest.raises(CheckpointError, match=rf"'{file}' is missing: bring back"):
        Checkpoints(tmp_path, LIMIT)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "is no list of a pool's checkpoints: Invalid JSON"),
        ('{"version": 1, "limit_bytes": 1048576}', "'jobs': Field required"),
        ('{"version": 2, "limit_bytes": 1048576, "jobs": {}}', "is of version 2; this tfwave reads 1"),
        (
            '{"version": 1, "limit_bytes": 4096, "jobs": {}}',
            "of a pool of 4 KiB, and this one has 1 MiB: give it the",
        ),
    ],
)
def test_a_list_of_another_pool_or_none_is_refused_by_name(content: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "pool.json").write_text(content)
    with pytest.raises(CheckpointError) as refused:
        Checkpoints(tmp_path, LIMIT)
    assert str(refused.value).startswith(f"'{tmp_path / 'pool.json'}' is ")
    assert words in str(refused.value)


@pytest.mark.parametrize(
    ("prefix", "ending"),
    [("../x/0", ".index"), ("save-1/0/../../x", ".index"), ("save-1/0", "./../x"), ("/0", ".i")],
)
def test_nothing_outside_of_the_directory_is_named(prefix: str, ending: str, tmp_path: Path) -> None:
    job = {"steps": 1, "prefix": prefix, "files": {ending: 1}}
    (tmp_path / "pool.json").write_text(json.dumps({"version": 1, "limit_bytes": LIMIT, "jobs": {"a": job}}))
    with pytest.raises(CheckpointError, match="String should match pattern"):
        Checkpoints(tmp_path, LIMIT)


def test_a_damaged_list_raises_only_our_errors(tmp_path: Path) -> None:
    Checkpoints(tmp_path, LIMIT).save({"a": stands(1, "a1"), "b": stands(2, "b2")})
    file, rng, refused = tmp_path / "pool.json", random.Random(1), 0
    whole = file.read_bytes()
    for _ in range(300):
        file.write_bytes(damaged(rng, whole))
        try:
            Checkpoints(tmp_path, LIMIT)
        except TfwaveError:
            refused += 1
    assert refused > 100


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(CheckpointError, match=r"file/pool.json' cannot be read: Not a directory"):
        Checkpoints(tmp_path / "file", LIMIT)


@pytest.fixture(scope="module")
def ledger(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    return native_ledger(tmp_path_factory.mktemp("ledger"))


@pytest.fixture
def sharing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ledger: ctypes.CDLL) -> Iterator[Sharing]:
    """Of a pool in which TensorFlow has nothing, as it is not there."""
    monkeypatch.setattr("tfwave.runtime.native.load", lambda: ledger)
    for module in ("room", "sharing"):
        monkeypatch.setattr(f"tfwave.colocate.{module}.pool_in_use", lambda: 0)
    found = Sharing(LIMIT, None, Checkpoints(tmp_path, LIMIT))
    yield found
    found.room.close()


def life_of(name: str, text: str, sharing: Sharing) -> Life:
    life = Life(Job(name, SessionStep(None, None), [1] * 9))
    life.state = Text(text)
    sharing.begin(life)
    return life


@needs_compiler
def test_a_job_of_which_a_step_failed_stays_as_it_was(sharing: Sharing, tmp_path: Path) -> None:
    """What that step had changed until then is known to nobody; nor is that of one that is under way."""
    life = life_of("a", "a1", sharing)
    life.make(abs, (1,))
    assert sharing.save([life]) == {"a": 1}
    with pytest.raises(ZeroDivisionError):
        life.make(lambda batch: batch // 0, (1,))
    life.state = Text("broken")
    assert sharing.save([life]) == {}
    assert texts(tmp_path, "a") == {"a": (1, "a1")}


@needs_compiler
def test_a_job_that_is_not_read_yet_is_not_written(sharing: Sharing, tmp_path: Path) -> None:
    first = life_of("a", "a1", sharing)
    first.make(abs, (1,))
    sharing.save([first])
    early = Life(Job("a", SessionStep(None, None), []))
    early.state = Text("initial")
    assert sharing.save([early]) == {}
    sharing.begin(early)
    assert (early.state.text, early.steps, early.resumed_after) == ("a1", 1, 1)


@needs_compiler
def test_a_job_goes_on_behind_the_batches_of_its_steps(sharing: Sharing) -> None:
    first = life_of("a", "a1", sharing)
    for _ in range(3):
        first.make(abs, (1,))
    sharing.save([first])
    taken: list[int] = []
    again = Life(Job("a", SessionStep(None, None), range(5)))
    again.state = Text("")
    sharing.begin(again)
    while again.advance(lambda batch: again.make(taken.append, (batch,))):
        pass
    assert (taken, again.steps, again.error) == ([3, 4], 5, None)


@needs_compiler
def test_a_job_whose_steps_go_on_while_it_is_written_is_not_saved(sharing: Sharing, tmp_path: Path) -> None:
    life = life_of("a", "a", sharing)
    assert isinstance(life.state, Text)
    life.state.stepping = life
    with pytest.raises(
        CheckpointError, match="the job 'a' is not saved: writing took so long that its steps"
    ):
        sharing.save([life])
    assert texts(tmp_path, "a") == {"a": None}
