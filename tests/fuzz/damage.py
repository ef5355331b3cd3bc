"""Bytes to break things with: what was truncated and flipped, and fields that nest."""

import random

from tests.hostile import nested


def any_field(rng: random.Random) -> bytes:
    """A field that no schema of tfwave's names, with fields in fields, now and then deeper than protobuf reads."""
    data = rng.choice((b"", b"c", b"^init", b"use:0", b"\x08\x00", b"\xff", bytes(20), b"z" * 300))
    for _ in range(rng.randint(0, 4)):
        depth = rng.choice((0, 1, 2, 50, 99, 100, 101, 5000))
        data = damaged(rng, nested(depth, rng.choice((7, 15, 2000)), data + data)[:10_000])
    return nested(1, 15, data)


def damaged(rng: random.Random, data: bytes) -> bytes:
    """Bytes that were truncated, bit-flipped, cut out of or repeated; now and then as they were."""
    found = bytearray(data)
    for _ in range(rng.choice((0, 1, 1, 2, 8))):
        at = rng.randrange(len(found)) if found else 0
        match rng.randrange(4):
            case 0:
                del found[at:]
            case 1 if found:
                found[at] ^= 1 << rng.randrange(8)
            case 2:
                del found[at : at + rng.randint(1, 20)]
            case _:
                found[at:at] = found[at : at + rng.randint(1, 20)]
    return bytes(found)
