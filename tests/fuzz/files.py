"""Files and directories to break things with, and commands that read and write them."""

import os
import random
from pathlib import Path

from google.protobuf import text_format

from tests.bundles import small_bundle
from tests.containers import save, some_model
from tests.fuzz.damage import any_field, damaged
from tests.fuzz.invariants import any_plan, attempt, check_command
from tests.fuzz.strategies import any_graph, any_pipeline, good_graph
from tfwave.bundle.bundle import save_bundle
from tfwave.plan.io import save_plan
from tfwave.proto.tensorflow_pb2 import GraphDef


def check_commands(rng: random.Random, folder: Path) -> None:
    """Write some files, then run one command on them."""
    graph = rng.choice((any_graph, good_graph))(rng)
    source = _write_source(rng, folder, graph)
    plan = _write_plan(rng, folder, graph)
    match rng.choice(("rewrite", "rewrite", "undo", "diff", "plan", "inspect")):
        case "rewrite":
            out = _any_out(rng, folder, source)
            arguments = ["rewrite", str(source), "--passes", any_pipeline(rng, graph).replace("\0", "")]
            arguments += ["-o", str(out)] + ["--plan", str(plan)] * (rng.random() < 0.7)
            arguments += ["--json"] * (rng.random() < 0.3)
        case "undo":
            out = _any_out(rng, folder, source)
            arguments = ["undo", str(source), "-o", str(out)]
        case "diff":
            out = None
            other = _write_source(rng, folder / "other", any_graph(rng))
            arguments = ["diff", str(source), str(rng.choice((other, source)))]
        case "plan":
            out = folder / rng.choice(("new.json", "new.pb"))
            arguments = ["plan", str(source), "--policy", rng.choice(("tic", "tac", "fifo", "nosuch"))]
            arguments += ["-o", str(out)]
        case _:
            out = None
            arguments = ["inspect", str(source), *(["--plan", str(plan)] * (rng.random() < 0.5))]
    check_command(folder, arguments, [source, plan], out)


def _write_source(rng: random.Random, folder: Path, graph: GraphDef) -> Path:
    """A graph in binary or text, a SavedModel or a bundle; one of its files damaged, now and then."""
    folder.mkdir(exist_ok=True)
    match rng.choice(("binary", "text", "model", "bundle")):
        case "binary":
            path = folder / "in.pb"
            path.write_bytes(graph.SerializeToString())
        case "text":
            path = folder / "in.pbtxt"
            path.write_text(text_format.MessageToString(graph))
        case "model":
            model = some_model()
            if rng.random() < 0.5:
                model.meta_graphs[1].graph_def.CopyFrom(graph)
            model.meta_graphs[0].MergeFromString(any_field(rng))
            path = save(model, folder / "model")
            _plant_link(rng, path / "assets")
        case _:
            path = folder / "bundle"
            save_bundle(small_bundle(), path)
            _plant_link(rng, path / "graphs")
    if rng.random() < 0.05:
        return folder / rng.choice(("nosuch", "x" * 300, "in.pb/x"))
    if rng.random() < 0.6:
        file = path if path.is_file() else rng.choice(_files(path))
        file.write_bytes(damaged(rng, file.read_bytes()))
    return path


def _plant_link(rng: random.Random, folder: Path) -> None:
    """Now and then what is no file: a link that leads astray, or a pipe."""
    if rng.random() < 0.2:
        os.mkfifo(folder / "000")
    elif rng.random() < 0.2:
        os.symlink(rng.choice(("/", ".", "..", "/dev/zero", "000", "nowhere")), folder / "000")


def _write_plan(rng: random.Random, folder: Path, graph: GraphDef) -> Path:
    path = folder / rng.choice(("plan.json", "plan.pb"))
    plan = attempt(lambda: any_plan(rng, graph))
    if plan is not None:
        save_plan(plan, path)
    if plan is None or rng.random() < 0.4:
        path.write_bytes(damaged(rng, path.read_bytes() if plan else b"{}"))
    return path


def _files(path: Path) -> list[Path]:
    return sorted(p for p in path.rglob("*") if p.is_file() and not p.is_symlink())


def _any_out(rng: random.Random, folder: Path, source: Path) -> Path:
    """Mostly a new name; else the input, a place in it, a link to it, or what cannot be written."""
    if rng.random() < 0.6:
        return folder / rng.choice(("out.pb", "out.pbtxt", "out"))
    link, loop, there = folder / "link", folder / "loop", folder / "there.pb"
    os.symlink(source, link)
    os.symlink(loop, loop)
    there.write_bytes(b"x")
    nowhere = (loop, loop / "x", there / "x", folder / ("x" * 300), Path("/proc/x"))
    return rng.choice((source, source / "x", link, folder, *nowhere))
