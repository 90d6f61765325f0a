"""The subscribers of a profile as a table, for a core with an HSS of its own."""

from __future__ import annotations

import csv
from collections.abc import Iterator

from imsbench.profile import Profile
from imsbench.run import configs

COLUMNS = ("n", "impi", "impus", "msisdn", "k")
"""What every row has; opc or op follows. The public identities are parted by blanks."""


class _Echo:
    """A file for csv that hands each line back."""

    def write(self, line: str) -> str:
        return line


def subscriber_lines(profile: Profile) -> Iterator[str]:
    """CSV, a header first: a line for each subscriber; keys in hexadecimal digits."""
    people = configs.population(profile)
    last = "opc" if people.op is None else "op"
    writer = csv.writer(_Echo(), lineterminator="\n")
    yield writer.writerow((*COLUMNS, last))
    for n in range(people.count):
        one = people.subscriber(n)
        key = one.opc if one.op is None else one.op
        assert key is not None
        yield writer.writerow(
            (n, one.impi, " ".join(one.impus), one.msisdn, one.k.hex(), key.hex())
        )
