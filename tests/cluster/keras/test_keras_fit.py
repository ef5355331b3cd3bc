"""tfwave.keras.fit: real servers and workers; the chief is a process of its own, which tells what it saw."""

from collections.abc import Iterator

import pytest

from tests.cluster.chief_cluster import ChiefCluster, running

STEPS = 7
SCENARIOS = "tests.cluster.keras.fit_scenarios"


@pytest.fixture(scope="module")
def alone() -> Iterator[ChiefCluster]:
    """One worker: training is what Model.fit does."""
    with running(SCENARIOS, 1) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def pair() -> Iterator[ChiefCluster]:
    """Two workers, asynchronous."""
    with running(SCENARIOS, 2) as cluster:
        yield cluster


@pytest.mark.parametrize(("rate", "diverges"), [(0.01, False), (1e6, True)])
def test_each_step_has_the_bits_of_model_fit_even_where_it_diverges(alone, rate, diverges):
    facts = alone.chief.run("each_step", rate=rate)
    assert facts["got"] == facts["expected"]
    losses = facts["got"][0]
    assert len(set(losses)) >= 3
    assert (losses[-1] == "nan") == diverges


@pytest.mark.parametrize(
    ("optimizer", "steps_per_execution"),
    [("sgd", 1), ("adam", 1), ("sgd", 3)],
    ids=["sgd", "adam", "unrolled"],
)
def test_one_worker_trains_as_model_fit_does(alone, optimizer, steps_per_execution):
    facts = alone.chief.run("against_model_fit", optimizer=optimizer, steps_per_execution=steps_per_execution)
    assert facts["distance"] <= 1e-6 < facts["moved"]
    assert facts["iterations"] == 3 * STEPS
    assert facts["epochs"] == [0, 1, 2]
    assert set(facts["history"]) == {"loss", "accuracy", "val_loss", "val_accuracy"}
    assert_close(facts["history"], facts["expected"])
    last_validation = {name: facts["history"][f"val_{name}"][-1:] for name in ("loss", "accuracy")}
    assert_close(last_validation, {name: [value] for name, value in facts["metrics"].items()})


def assert_close(got: dict[str, list[float]], expected: dict[str, list[float]]) -> None:
    assert set(got) == set(expected)
    for name, values in got.items():
        assert values == pytest.approx(expected[name], rel=1e-5), name


def test_callbacks_see_what_they_see_in_model_fit(alone, tmp_path):
    facts = alone.chief.run("with_callbacks", directory=str(tmp_path))
    got, expected = facts["got"], facts["expected"]
    assert [e[:2] for e in got["events"]] == [e[:2] for e in expected["events"]]
    for (name, _, logs), (_, _, expected_logs) in zip(got["events"], expected["events"], strict=True):
        assert logs == pytest.approx(expected_logs, rel=1e-5), name
    assert_close(got["history"], expected["history"])
    assert 3 < len(got["lambdas"]) < 9, "EarlyStopping neither waited nor stopped"
    for same in ("lambdas", "files", "rate"):
        assert got[same] == expected[same]
    assert got["first_weights"] == pytest.approx(expected["first_weights"], rel=1e-6)
    assert got["csv"].splitlines()[0] == expected["csv"].splitlines()[0]
    assert len(got["csv"].splitlines()) == len(got["lambdas"]) + 1
    assert facts["distance"] <= 1e-6


def test_the_progress_bar_shows_steps_and_results(alone):
    shown = alone.chief.run("progress_bar")
    assert "Epoch 2/2" in shown
    assert f"{STEPS}/{STEPS}" in shown
    assert "loss: " in shown


def test_epochs_of_a_number_of_steps_go_on_in_the_dataset(alone):
    facts = alone.chief.run("uneven_epochs")
    assert facts["iterations"] == 5 + 2 + 5
    assert [w for w in facts["warnings"] if "ended after 2 of the epoch's 5 batches" in w]
    assert_close(facts["history"], facts["expected"])
    assert facts["distance"] <= 1e-6


def test_a_custom_train_step_with_added_losses_sample_weights_and_a_dict_of_inputs(alone):
    facts = alone.chief.run("custom_step")
    assert set(facts["history"]) == {"half"}
    assert_close(facts["history"], facts["expected"])
    assert facts["distance"] <= 1e-6


def test_a_model_may_have_its_optimizer_to_itself(alone):
    facts = alone.chief.run("optimizer_of_its_own")
    assert_close(facts["history"], facts["expected"])
    assert facts["distance"] <= 1e-6


def test_rows_that_the_server_gathers_train_bit_for_bit_as_the_whole_table(alone):
    facts = alone.chief.run("gathered_on_server")
    assert facts["rows"] == facts["whole"]
    assert facts["rewritten"] == [True, True], "training and validation"


def test_stop_training_ends_after_the_step_that_asks_for_it(alone):
    assert alone.chief.run("stopped", batch=3) == {"epochs": [0], "iterations": 4, "ends": [0, 1, 2, 3]}


def test_with_two_workers_at_most_one_more_step_is_under_way(pair):
    facts = pair.chief.run("stopped", batch=3)
    assert facts["epochs"] == [0]
    assert facts["ends"] in ([0, 1, 2, 3], [0, 1, 2, 3, 4])
    assert facts["iterations"] == len(facts["ends"])


@pytest.mark.parametrize(("workers", "executions"), [("alone", 2), ("pair", 3)])
def test_an_exception_in_a_callback_leaves_no_step_behind(workers, executions, request):
    facts = request.getfixturevalue(workers).chief.run("failed_callback")
    assert facts["raised"] == "in a callback"
    assert facts["done"]
    assert facts["steps"] == executions * 3
    assert facts["steps_after"] == facts["steps"] + STEPS


def test_a_wait_for_workers_is_said(alone):
    assert [said for said in alone.chief.run("impatient") if "are the workers running?" in said]


REFUSALS = {
    "class_weight": "TfwaveError: fit() takes no class_weight: put a weight for each sample into the dataset",
    "batch_size": "TfwaveError: fit() takes no batch_size: batch the dataset",
    "typo": "TypeError: fit() got an unexpected keyword argument 'epoch'",
    "arrays": "TfwaveError: x is a ndarray, not a tf.data.Dataset: wrap arrays",
    "validation arrays": "TfwaveError: validation_data is a tuple, not a tf.data.Dataset",
    "endless": "TfwaveError: x has no end: say how many batches are an epoch",
    "function without steps": "TfwaveError: a dataset function has no size: give steps_per_epoch",
    "no steps": "TfwaveError: the steps of x must be >= 1, not 0",
    "empty": "TfwaveError: the dataset gave no batch",
    "empty on workers": "TfwaveError: the dataset gave no batch",
    "made outside": "TfwaveError: the dataset function uses a dataset that was made outside: make it inside",
    "no strategy": "belongs to no ParameterServerStrategy: make and compile it under strategy.scope()",
    "compiled outside": "not on a parameter server: make the model and its optimizer",
    "not compiled": "is not compiled: call compile() under strategy.scope()",
    "eager": "runs eagerly, and workers run graphs only: compile(run_eagerly=False)",
    "xla": "asks for XLA, which cannot read parameter servers: compile(jit_compile=False)",
    "accumulation": "accumulates gradients, and workers would mix them up",
    "averages": "overwrites its weights by averages, which Keras cannot do here",
    "metric": "is aggregated by 'mean', and only sums can be gathered from workers",
    "other logs": "OtherLogs.train_step returns other logs than the metrics loss",
    "not built": "has another optimizer, 'own', which is not built",
    "unbuildable": "cannot be built from batches of",
    "not keras": "TfwaveError: ParameterServerStrategyV2 is no Keras 3 model",
}


def test_what_cannot_be_honoured_is_refused_with_the_way_out(alone):
    said = alone.chief.run("refusals")
    assert set(said) == set(REFUSALS)
    assert {name: text for name, text in said.items() if REFUSALS[name] not in text} == {}


def test_two_workers_use_each_batch_once_and_lose_no_metric(pair):
    facts = pair.chief.run("exact_metrics")
    assert facts["iterations"] == 2 * 50
    for epoch in range(2):
        logs = {name: values[epoch] for name, values in facts["history"].items() if name[:4] != "val_"}
        assert logs == pytest.approx(facts["expected"], rel=1e-5)
        assert (logs["least"], logs["most"]) == (1, 1)
    validation = {k[4:]: v[0] for k, v in facts["history"].items() if k[:4] == "val_"}
    assert validation == pytest.approx(facts["expected"], rel=1e-5)


@pytest.mark.parametrize("scenario", ["learns", "learns_from_a_function"])
def test_two_workers_learn(pair, scenario):
    facts = pair.chief.run(scenario)
    assert facts["iterations"] == 3 * 50
    losses = facts["history"]["loss"]
    assert losses[0] > losses[1] > losses[2]


def test_workers_that_are_killed_cost_no_batch(pair):
    """The first comes back, and can go on alone when the second is killed."""
    facts = pair.chief.run(
        "loses_workers",
        pair.tasks["first"].kill,
        lambda: pair.restart("first"),
        pair.tasks["second"].kill,
    )
    assert facts["history"]["least"] == facts["history"]["most"] == [1, 1]
    assert facts["history"]["loss"][1] < facts["history"]["loss"][0]


def test_a_chief_that_is_killed_continues_from_its_backup(alone, tmp_path):
    alone.chief.tell({"scenario": "backed_up", "directory": str(tmp_path / "backup"), "hold_at": 3})
    assert alone.chief.read() == {"question": "hold"}
    alone.chief.kill()
    alone.start_chief()
    alone.connect()
    facts = alone.chief.run("backed_up", directory=str(tmp_path / "backup"))
    assert facts["epochs"] == [2, 3]
    assert_close(facts["history"], {name: values[2:] for name, values in facts["expected"].items()})
    assert facts["distance"] <= 1e-6
    assert facts["iterations"] == 4 * STEPS


def test_a_lost_parameter_server_is_named_with_the_way_out(pair):
    said = pair.chief.run("loses_a_server", pair.tasks["servers"].kill)
    assert said.startswith("TfwaveError: /job:ps/replica:0/task:")
    assert "start it again, and then this program; keras.callbacks.BackupAndRestore" in said
