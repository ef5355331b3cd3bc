"""An optimizer of Keras 3 or tf_keras that takes its gradients from reduces between processes."""

import hashlib
import warnings
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np

from tfwave.distribute.other_groups import OtherGroups
from tfwave.errors import EnforcerError
from tfwave.reduce.growing import buckets_of, slices_of
from tfwave.reduce.member import Member
from tfwave.reduce.options import Options
from tfwave.reduce.place import Place
from tfwave.reduce.service import Coordinator
from tfwave.reduce.told import ReduceReport
from tfwave.reduce.update import ReduceFigures, Update
from tfwave.runtime.interrupts import Interrupts
from tfwave.runtime.reduced_gradients import (
    Kind,
    apply_exchanged,
    begin_trace,
    function_of_rows,
    settable_rate,
    size_of,
    told,
)


class ReducedOptimizer:
    """This process's part in the training, and the coordinator's if it is here.

    The seam is the optimizer's `apply` (of tf_keras, `apply_gradients`): what it is given goes to the member, and
    as many reduced gradients as have come, none or several, are applied one after the other. What its
    `finalize_variable_values` makes of the weights, as averages of them, waits for the last of these.
    """

    def __init__(  # noqa: PLR0913, PLR0917
        self,
        optimizer: Any,
        variables: Sequence[Any],
        state: Iterable[Any],
        place: Place,
        options: Options,
        report_dir: Path | None = None,
    ) -> None:
        """Start the coordinator, if `place` says so, and connect.

        Args:
            optimizer: built for `variables`, or not built.
            variables: what is trained, of one float type.
            state: what else is to begin with the first worker's values; may hold `variables` too.
            place: which worker this is.
            options: the rules.
            report_dir: where to leave what is known of the reduces; None: nowhere.

        Raises:
            EnforcerError: no port is free, or an address or credential is not as it should be; there are no
                variables, or of several types, or of one that is not summed; or the optimizer scales its loss, is
                a legacy one, or keeps averages of weights, each group others.
        """
        self._dtype = _dtype_of(variables)
        _check_kind(optimizer)
        if getattr(optimizer, "inner_optimizer", None) is not None:
            raise EnforcerError(
                f"{type(optimizer).__name__} scales its loss, each process by another factor: give its "
                "inner_optimizer, and gradients of the loss as it is"
            )
        if place.groups and getattr(optimizer, "use_ema", False):
            raise EnforcerError(
                f"{type(optimizer).__name__} ends with averages of the weights (use_ema), and each group of "
                "workers has averages of its own: do without use_ema, or without groups"
            )
        optimizer.build(variables)  # nothing, if it is
        self._optimizer = optimizer
        self._trained = list(variables)
        sizes = list(map(size_of, self._trained))
        self._size = sum(sizes)
        self.buckets = (
            buckets_of(sizes, np.dtype(self._dtype).itemsize)
            if options.probes == "all"
            else [range(len(sizes))]
        )
        """Of the variables: whose gradients are handed over together, while others are computed."""
        self._slices = slices_of(self.buckets, sizes)
        self._state_variables = list({id(each): each for each in (*state, *variables)}.values())
        self._kinds = [Kind.DENSE] * len(self._trained)
        self._seam = "apply" if hasattr(optimizer, "apply") else "apply_gradients"
        self._plain = getattr(optimizer, self._seam)
        self._finalize: Callable[[Any], None] = optimizer.finalize_variable_values
        self._to_finalize: Any = None
        self._has_applied = False
        self._drifts = options.probes != "all" and options.workers > 1
        self._rate: float | None = None
        self._report = None if report_dir is None else ReduceReport(report_dir, options)
        layout = self._layout()
        self._others = OtherGroups(place, options, layout, self._trained) if place.groups else None
        with ExitStack() as stack:
            if place.is_coordinator:
                met = self._others and self._others.place
                stack.enter_context(Coordinator(place.listen, options.credentials, once=True, place=met))
            if self._others:
                stack.callback(self._others.close)
            self._member = stack.enter_context(self._make_member(options, layout))
            self._interrupts = Interrupts(partial(self._member.hurry, hurried=True))
            stack.callback(self._interrupts.close)
            self._open = stack.pop_all()

    @property
    def figures(self) -> ReduceFigures:
        """What this member has seen so far."""
        return self._member.figures

    def join(self) -> None:
        """Wait for the other workers, take the first one's variables, and have the optimizer reduce from now on.

        Raises:
            EnforcerError: as `Member.join` and `Meeting.begin`.
        """
        if self._others:
            self._load(self._others.meeting.begin(self._state()))
            self._others.begin()
        self._load(self._member.join(self._state()))
        applies = self._apply if self._seam == "apply" else self._apply_pairs
        setattr(self._optimizer, self._seam, applies)
        self._optimizer.finalize_variable_values = self._finalize_later
        self._rate = settable_rate(self._optimizer)

    def run(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call a function in which the optimizer applies; what ends the reduces is raised as it is.

        Who presses Ctrl-C does not wait for the other workers: what they make of the gradient comes later.

        Raises:
            EnforcerError: this member is out, or the coordinator is gone; or no gradient came to the optimizer.
        """
        self._member.hurry(hurried=False)
        with told(lambda: self._member.failure), self._interrupts.heard(), self._whole():
            result = function(*args, **kwargs)
        if not self._has_applied:
            raise EnforcerError(
                f"the step has not called {self._seam} of the optimizer that reduces, so nothing was reduced: a "
                "tf.function within it that was called before keeps what it was traced with, make it anew"
            )
        return result

    def serve(self) -> None:
        """Give the variables to workers that came late, and other groups what this one did; between two steps."""
        self._member.serve(self._state)
        if self._others and self._member.is_to_meet:
            self._member.meet(self._others.own())

    def check_rate(self) -> None:
        """Warn, once, if the learning rate was set anew: each worker applied other sums with the one before."""
        rate = settable_rate(self._optimizer)
        if self._drifts and rate != self._rate:
            self._drifts = False
            warnings.warn(
                f"the learning rate was {self._rate} and is {rate}: each worker sets it behind another reduce, and "
                "their weights are no longer the same; take a learning rate schedule, which counts reduces, or "
                "probes='all'",
                stacklevel=2,
            )

    def drain(self) -> None:
        """Apply what still comes, until no worker has anything; and then what other groups did, once they end.

        Raises:
            EnforcerError: as `Member.drain` and `Meeting.end`.
        """
        self.check_rate()
        apply: Callable[..., None] | None = None
        for update in self._member.drain(self._state):
            apply = apply or function_of_rows(self._trained, self._kinds, self._apply_plainly, self.moves)
            apply(*self._rows([update]))
        if self._others:
            self._others.end(self._member.handed, self._member.left)
        if self._to_finalize is not None:
            self._finalize(self._to_finalize)

    def tell(self, step: int) -> None:
        """Tell the figures so far, if anybody is to know."""
        if self._report is not None:
            self._report.tell(self.figures, step)

    def close(self) -> None:
        """Leave the others, and the optimizer as it was."""
        for name in (self._seam, "finalize_variable_values"):
            if name in vars(self._optimizer):
                delattr(self._optimizer, name)
        self._open.close()
        if self._report is not None:
            self._report.leave(self.figures)

    def _layout(self) -> str:
        values = [np.asarray(variable) for variable in self._variables()]
        shapes = [(str(value.dtype), value.shape) for value in values]
        return hashlib.sha256(repr(shapes).encode()).hexdigest()

    def _make_member(self, options: Options, layout: str) -> Member:
        record = None if self._report is None else self._report.record
        visit = self._others and self._others.meeting.visit
        return Member(options, self._size, self._dtype, layout, record, visit, self._slices)

    @contextmanager
    def _whole(self) -> Generator[None]:
        """Take back what a step that fails has handed over of a gradient."""
        try:
            yield
        except BaseException:
            self._member.abandon()
            raise

    def _variables(self) -> list[Any]:
        return [*self._state_variables, *_variables_of(self._optimizer)]

    def _state(self) -> bytes:
        base = [] if self._others is None else [self._others.base]
        return b"".join(np.asarray(value).tobytes() for value in [*self._variables(), *base])

    def _load(self, state: bytes | None) -> None:
        if state is None:
            return
        start = 0
        for variable in self._variables():
            value = np.asarray(variable)
            here = np.frombuffer(state, value.dtype, value.size, start)
            variable.assign(here.reshape(value.shape))
            start += value.nbytes
        if self._others:
            self._others.go_on(np.frombuffer(state, self._others.base.dtype, offset=start))

    def _apply_pairs(
        self, grads_and_vars: Iterable[tuple[Any, Any]], name: str | None = None, **aggregation: Any
    ) -> Any:
        """In the place of tf_keras's `apply_gradients`; outside of strategies it aggregates nothing."""
        del name, aggregation
        self._apply(*zip(*grads_and_vars, strict=True))
        return self._optimizer.iterations

    def _apply(self, grads: Sequence[Any], trainable_variables: Sequence[Any] | None = None) -> None:
        """In the place of Keras's `apply`."""
        if trainable_variables is not None:
            self._check(trainable_variables)
        self._has_applied = True  # or will, where the step does so at times
        self._kinds = list(map(Kind.of, grads))
        apply_exchanged(grads, self._trained, self, self._apply_plainly)

    def _finalize_later(self, var_list: Any) -> None:
        """In the place of Keras's `finalize_variable_values`, which `fit` calls before `on_train_end`."""
        self._to_finalize = var_list

    def _check(self, variables: Sequence[Any]) -> None:
        if [id(variable) for variable in variables] != [id(variable) for variable in self._trained]:
            raise EnforcerError(
                f"gradients of {len(variables)} variables are applied, of others or in another order than the "
                f"{len(self._trained)} that are reduced: apply those of all, in that order"
            )

    def _apply_plainly(self, grads: Sequence[Any]) -> None:
        begin_trace(self._optimizer)
        if self._seam == "apply":
            self._plain(grads, self._trained)
        else:
            self._plain(zip(grads, self._trained, strict=True))

    @property
    def moves(self) -> bool:
        """As in `Exchange`."""
        return self._others is not None

    def put(self, piece: Any, number: Any) -> Any:
        """As in `Exchange`."""
        self._member.put(piece)
        return number + 1

    def collect(self, number: Any) -> tuple[Any, ...]:
        """As in `Exchange`."""
        del number
        return self._rows(self._member.collect())

    def _rows(self, updates: Sequence[Update]) -> tuple[Any, ...]:
        """Of each sum of gradients the mean over its ring, and of what others did what weights move by, in a row.

        With other groups also which rows are such.
        """
        rows = np.empty((len(updates), self._size), self._dtype)
        for update, row in zip(updates, rows, strict=True):
            self._fill(row, update)
        return (rows, np.array([update.of_others for update in updates], bool)) if self.moves else (rows,)

    def _fill(self, row: Any, update: Update) -> None:
        if self._others and update.of_others:
            row[:] = self._others.step_to(update.values)
            return
        np.divide(update.values, row.dtype.type(update.members), out=row)
        if self._others:
            row *= row.dtype.type(self._others.share)


def _check_kind(optimizer: Any) -> None:
    if not hasattr(optimizer, "build"):
        name = type(optimizer).__name__
        raise EnforcerError(
            f"{name} is a legacy optimizer of tf_keras, whose variables are not known beforehand: take "
            f"tf_keras.optimizers.{name}"
        )


def _variables_of(optimizer: Any) -> list[Any]:
    """Those that it lists, and those that it only holds: in tf_keras the learning rate, and Nadam's product."""
    kept = cast("dict[str, Any]", vars(optimizer))
    held = [kept[name] for name in sorted(kept) if callable(getattr(kept[name], "assign", None))]
    return list({id(each): each for each in (*optimizer.variables, *held)}.values())


def _dtype_of(variables: Sequence[Any]) -> str:
    if not variables:
        raise EnforcerError(
            "there are no variables to train: a model has none before it was called on a batch"
        )
    kinds = sorted({np.asarray(variable).dtype.name for variable in variables})
    if len(kinds) != 1:
        raise EnforcerError(
            f"variables to train are of {len(kinds)} types ({', '.join(kinds)}): give all one dtype"
        )
    if kinds[0] not in ("float16", "float32", "float64"):
        raise EnforcerError(f"variables to train are of {kinds[0]}, which is not summed: take float32")
    return kinds[0]
