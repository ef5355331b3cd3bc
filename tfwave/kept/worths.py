"""What ids are worth, whether they have a row or had one."""

from typing import Any, NamedTuple

import numpy as np

from tfwave.kept.policies import Policy


class Worths(NamedTuple):
    """Ids, each once; what each was worth when it came last; and in which batch that was."""

    ids: Any
    worth: Any
    last: Any

    @classmethod
    def of_none(cls) -> "Worths":
        return cls(np.zeros(0, np.int64), np.zeros(0), np.zeros(0, np.int64))

    def chosen(self, places: Any) -> "Worths":
        return Worths(*(column[places] for column in self))

    def beside(self, others: "Worths") -> "Worths":
        return Worths(*map(np.concatenate, zip(self, others, strict=True)))

    def by_id(self) -> "Worths":
        return self.chosen(np.argsort(self.ids))

    def ranked(self, policy: Policy, now: int) -> Any:
        """Their places, in the order of what they are worth now, least first; of equal ones the greater id."""
        return np.lexsort((-self.ids, policy.present(self.worth, now - self.last)))

    def of(self, ids: Any, now: int) -> tuple[Any, Any]:
        """Worth and last batch of some ids, if these are `by_id`; of others nothing, and now."""
        worth, last = np.zeros(len(ids)), np.full(len(ids), now)
        if len(self.ids):
            places: Any = np.minimum(self.ids.searchsorted(ids), len(self.ids) - 1)
            known = self.ids[places] == ids
            worth[known], last[known] = self.worth[places[known]], self.last[places[known]]
        return worth, last
