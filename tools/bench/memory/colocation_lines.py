"""What `colocation.py` says of each row as soon as it is found."""

from typing import Any

Row = dict[str, Any]


def line(found: Row) -> str:
    start = f"{found['pair']:20}{found['limit'] >> 20:6} MB {found['mode']:12}"
    if found["share"] is None:
        return f"{start} no share of what was tried"
    return (
        f"{start} {found['share']:5.0%} of solo {found['of_ceiling']:5.0%} of ceiling "
        f"{found['successes']}/{found['repeats']} peak {found['peak'] / 2**20:5.0f} MB, "
        f"predicted {found['predicted_peak'] / 2**20:5.0f}; {found['seconds']:.3f} s, "
        f"losses {'equal' if found['losses_equal'] else 'DIFFER'}; {found['variant']}"
    )


def throughput_line(found: Row) -> str:
    start = f"{found['pair']:20}{found['limit'] >> 20:6} MB {found['share']:5.0%} of solo"
    if found["throughput"] is None:
        return f"{start} {found['error']}"
    each = " ".join(f"{ratio:.2f}" for ratio in found["throughput_of_processes"])
    how = found["variant"] or "the same program"
    return f"{start} throughput {found['throughput']:.3f} ({each}), {found['ran_out']} ran out; {how}"


def fit_line(case: Row) -> str:
    said = "fits" if case["predicted_fit"] else "does not fit"
    return (
        f"{case['pair']:20}{case['limit'] >> 20:6} MB {case['batches']} in turn {case['in_turn_of_limit']:.1%}: "
        f"{said}, {case['successes']}/{case['repeats']} ok{'' if case['agrees'] else ': MISS'}"
    )
