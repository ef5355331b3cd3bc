"""Is a model ready to train on parameter servers? Who says no, says what to do."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

from tfwave.errors import TfwaveError

_WAYS_OUT = {
    "y": "put the targets into the dataset: tf.data.Dataset.from_tensor_slices((x, y))",
    "batch_size": "batch the dataset: dataset.batch(batch_size)",
    "validation_split": "split the dataset with take() and skip(), and give validation_data",
    "shuffle": "shuffle the dataset: dataset.shuffle(buffer_size)",
    "class_weight": "put a weight for each sample into the dataset, as the third of (x, y, weights)",
    "sample_weight": "put the weights into the dataset, as the third of (x, y, weights)",
    "validation_batch_size": "batch validation_data",
}


def check_arguments(unsupported: Iterable[str]) -> None:
    """Refuse the arguments of `Model.fit` that a dataset takes over.

    Raises:
        TfwaveError: there is one.
        TypeError: `Model.fit` has no such argument.
    """
    for name in unsupported:
        if name not in _WAYS_OUT:
            raise TypeError(f"fit() got an unexpected keyword argument '{name}'")
        raise TfwaveError(f"fit() takes no {name}: {_WAYS_OUT[name]}")


def check_keras(model: Any) -> None:
    """Refuse what is no Keras 3 model on TensorFlow.

    Raises:
        TfwaveError: says what it is.
    """
    keras: Any = __import__("keras")
    if keras.backend.backend() != "tensorflow":
        raise TfwaveError(
            f"Keras runs on {keras.backend.backend()}: set KERAS_BACKEND=tensorflow before the start"
        )
    if not isinstance(model, keras.Model):
        raise TfwaveError(
            f"{type(model).__name__} is no Keras 3 model: a tf_keras model trains by its own fit()"
        )


def is_of_tf_keras(model: Any) -> bool:
    """Also where its class is a user's own."""
    return any(kind.__module__.startswith("tf_keras") for kind in type(model).__mro__)


def check_train_function(model: Any, way_out: str) -> None:
    """Refuse a model that has no train function of Keras 3, whose place a callback could take.

    Raises:
        TfwaveError: says what it is, and of a model of tf_keras the `way_out`.
    """
    if is_of_tf_keras(model):
        raise TfwaveError(
            f"{type(model).__name__} is of tf_keras, and the callback takes the place of Keras 3's train function: "
            f"{way_out}"
        )
    check_keras(model)


def check_one_step(model: Any) -> None:
    """Refuse a model whose train function is not one graph of one step, outside of strategies.

    Raises:
        TfwaveError: names what is at fault.
    """
    check_train_function(model, "make the model with keras")
    for fault in _faults_of_one_step(model):
        raise TfwaveError(f"the model '{model.name}' {fault}")


def _faults_of_one_step(model: Any) -> Iterator[str]:
    if model._distribute_strategy is not None:
        yield f"belongs to a {type(model.distribute_strategy).__name__}: make it outside of strategies"
    if model.steps_per_execution != 1:
        yield "makes several steps at a time: compile(steps_per_execution=1)"
    if model.run_eagerly:
        yield "runs eagerly, and a plan is for a graph: compile(run_eagerly=False)"
    if model.jit_compile:
        yield "is compiled by XLA, which keeps and places what it likes: compile(jit_compile=False)"


def check_model(model: Any) -> None:
    """Refuse a model that was not made for parameter servers, or compiled in a way that cannot be kept.

    Raises:
        TfwaveError: names what is at fault.
    """
    check_keras(model)
    for fault in _faults(model):
        raise TfwaveError(f"the model '{model.name}' {fault}")


def _faults(model: Any) -> Iterator[str]:
    tensorflow: Any = __import__("tensorflow")
    strategy = model.distribute_strategy
    if not isinstance(strategy, tensorflow.distribute.ParameterServerStrategy):
        yield "belongs to no ParameterServerStrategy: make and compile it under strategy.scope()"
    if strategy.num_replicas_in_sync > 1:
        yield "has workers with several GPUs: run one worker for each GPU, with CUDA_VISIBLE_DEVICES"
    if not model.compiled:
        yield "is not compiled: call compile() under strategy.scope()"
    if model.run_eagerly:
        yield "runs eagerly, and workers run graphs only: compile(run_eagerly=False)"
    if model.jit_compile:
        yield "asks for XLA, which cannot read parameter servers: compile(jit_compile=False)"
    yield from _faults_of_optimizers(model)


def _faults_of_optimizers(model: Any) -> Iterator[str]:
    for optimizer in optimizers_of(model):
        if optimizer.gradient_accumulation_steps:
            yield "accumulates gradients, and workers would mix them up: set no gradient_accumulation_steps"
        if optimizer.use_ema and optimizer.ema_overwrite_frequency:
            yield "overwrites its weights by averages, which Keras cannot do here: set no ema_overwrite_frequency"
    for optimizer in other_optimizers(model):
        if not optimizer.built:
            yield (
                f"has another optimizer, '{optimizer.name}', which is not built, and steps on workers make no "
                "variables: call its build() with the variables that it updates, under strategy.scope()"
            )


def optimizers_of(model: Any) -> Sequence[Any]:
    """The optimizer of a model and the one that it wraps, if any."""
    outer = model.optimizer
    inner = getattr(outer, "inner_optimizer", None)
    return [optimizer for optimizer in (outer, inner) if optimizer is not None]


def other_optimizers(model: Any) -> Sequence[Any]:
    """Those that it holds beside those that it is compiled with; not those of models in it, as of a teacher."""
    known = list(map(id, optimizers_of(model)))
    held = cast("dict[str, Any]", vars(model)).values()
    values = [
        one for value in held for one in (cast("list[Any]", value) if isinstance(value, list) else [value])
    ]
    return [one for one in values if hasattr(one, "apply_gradients") and id(one) not in known]


def build(model: Any, element_spec: Any) -> None:
    """Create the variables of a model, its metrics and its optimizer: steps on workers may create none.

    Raises:
        TfwaveError: the model cannot be built from such batches, or a variable is in blocks or not on a parameter
            server.
    """
    make_variables(model, element_spec)
    owners = (model, *optimizers_of(model), *other_optimizers(model))
    values = {v.path: v.value for owner in owners for v in owner.variables}
    _check_whole(values)
    _check_places({path: value.device for path, value in values.items()})


def _check_whole(values: Mapping[str, Any]) -> None:
    tensorflow: Any = __import__("tensorflow")
    for path, value in values.items():
        if not isinstance(value, tensorflow.Variable):
            raise TfwaveError(
                f"the variable '{path}' is cut into blocks by the strategy's variable_partitioner, and Keras 3"
                " cannot train such: make the strategy without one"
            )


def _check_places(places: Mapping[str, str]) -> None:
    for path, device in places.items():
        if "/job:ps/" not in device:
            raise TfwaveError(
                f"the variable '{path}' is on {device or 'the chief'}, not on a parameter server: make the model"
                " and its optimizer, and compile it, under strategy.scope()"
            )


def make_variables(model: Any, element_spec: Any) -> None:
    """Create the variables of a model, its metrics and its optimizer, those that are not there.

    A model without a `call`, whose train_step calls what it consists of, has those that it trains already.

    Raises:
        TfwaveError: the model cannot be built from such batches, or consists of what is not built.
    """
    try:
        with model.distribute_strategy.scope():
            if not _has_call(model):
                _check_parts(model)
            elif _needs_a_batch(model):
                model._symbolic_build(data_batch=element_spec)
            for optimizer in optimizers_of(model):
                if not optimizer.built:
                    optimizer.build(model.trainable_variables)
    except (RuntimeError, TypeError, ValueError) as err:
        reason = str(err).partition("\n")[0]
        raise TfwaveError(
            f"the model '{model.name}' cannot be built from batches of {element_spec} ({reason}): call it once "
            "on a batch, under the scope of its strategy if it has one"
        ) from err


def _has_call(model: Any) -> bool:
    keras: Any = __import__("keras")
    kind: Any = model.__class__
    return kind.call is not keras.Model.call


def _needs_a_batch(model: Any) -> bool:
    """Is anything missing that Keras makes by inputs, targets and weights? A train_step may take other batches."""
    metrics, loss = model._compile_metrics, model._compile_loss
    asked = metrics is not None and (metrics._user_metrics or metrics._user_weighted_metrics)
    made: list[Any] = [*model._flatten_layers(), loss, metrics if asked else None]
    return not all(each is None or each.built for each in made)


def _check_parts(model: Any) -> None:
    for layer in model._flatten_layers(include_self=False):
        if not layer.built:
            raise TfwaveError(
                f"the model '{model.name}' has no call() to build its layer '{layer.name}': call that layer "
                "on a batch before fit, or give it an Input"
            )
