"""Rates over time from a CSV file: what it says, and all that may be wrong with it at once."""

from __future__ import annotations

import pathlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from imsbench.profile import Profile, ProfileError, load_profile, parse_profile
from imsbench.profile.curves import curves_of

PROFILE = """
name: day
subscribers: {count: 100}
phases:
  - fill: {rate: 50, to: 100}
  - load: {csv: %s, calls: {hold: {mean: 2s}}}
"""


def write(folder: pathlib.Path, text: str, name: str = "day.csv") -> str:
    (folder / "day.csv").write_text(text)
    path = folder / "day.yaml"
    path.write_text(PROFILE % name)
    return str(path)


def test_a_file_beside_the_profile_says_the_rates(tmp_path: pathlib.Path) -> None:
    text = "seconds, calls,reattaches,refreshes\n0,1,0,0\n\n10,3,0,0\n10,0.5,2,0\n20,0.5,2,0\n"
    profile = load_profile(write(tmp_path, text))
    step = profile.steps()[1]
    assert step.points == ((0.0, 1.0), (10.0, 3.0), (10.0, 0.5), (20.0, 0.5))
    assert (step.attempts, step.duration_s) == (25, 20.0)
    assert step.beside is not None
    (offer,) = step.beside.offers  # a column of nought is no procedure
    assert (offer.procedure, offer.pace.attempts) == ("reattach", 20)
    assert "load of day.csv" in step.title
    # A worker is told everything, and reads no file.
    assert Profile.model_validate(profile.model_dump(mode="json")).steps() == profile.steps()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "has no column “seconds”"),
        ("seconds\n0\n", "has no column of rates"),
        ("seconds,calls,calls\n0,1,1\n", "column “calls” is there 2 times"),
        ("seconds,cals\n0,1\n", "unknown column “cals”; known: seconds, calls, refreshes"),
        ("seconds,calls\n0,1\n5,x\n4\n6,-1\n3,inf\n", "line 3: calls must be a number"),
        ("seconds,calls\n0,1\n5,x\n4\n", "line 4: has 1 values for 2 columns"),
        ("seconds,calls\n0,1\n5,2\n4,1\n", "line 4: seconds go back from 5 to 4"),
    ],
)
def test_what_is_wrong_with_a_file_is_told_at_its_line(
    tmp_path: pathlib.Path, text: str, said: str
) -> None:
    with pytest.raises(ProfileError) as caught:
        load_profile(write(tmp_path, text))
    assert "line 6: phases[1].load.csv: day.csv: " in str(caught.value)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("seconds,calls\n0,1\n", "two points or more"),
        ("seconds,calls\n1,1\n2,1\n", "the first at 0s"),
        ("seconds,calls\n0,0\n2,0\n", "has no curve"),
    ],
)
def test_a_file_that_is_no_course_is_refused(tmp_path: pathlib.Path, text: str, said: str) -> None:
    with pytest.raises(ProfileError, match=said):
        load_profile(write(tmp_path, text))


def test_other_problems_come_with_it(tmp_path: pathlib.Path) -> None:
    path = write(tmp_path, "", name="none.csv")
    pathlib.Path(path).write_text(pathlib.Path(path).read_text() + "seed: -1\n")
    with pytest.raises(ProfileError) as caught:
        load_profile(path)
    assert [problem.path for problem in caught.value.problems] == ["phases[1].load.csv", "seed"]
    assert "none.csv: cannot be read: No such file or directory" in str(caught.value)


def test_a_text_has_no_files_beside_it() -> None:
    with pytest.raises(ProfileError, match="this profile is no file"):
        parse_profile(PROFILE % "day.csv")


@given(st.text(max_size=200))
def test_any_text_is_a_curve_or_an_error(text: str) -> None:
    try:
        curves = curves_of(text)
    except ValueError:
        return
    assert all(curve for curve in curves.values())


@given(
    st.lists(
        st.tuples(st.integers(0, 10_000), st.floats(0.0, 1e5), st.floats(0.0, 1e5)),
        min_size=1, max_size=20,
    )
)  # fmt: skip
def test_what_was_written_is_read(rows: list[tuple[int, float, float]]) -> None:
    rows = sorted(rows, key=lambda row: row[0])
    text = "calls,seconds,refreshes\n" + "".join(f"{b},{a},{c}\n" for a, b, c in rows)
    curves = curves_of(text)
    for name, index in (("calls", 1), ("refreshes", 2)):
        rates = [row[index] for row in rows]
        found = [float(rate) for _at, rate in curves.get(name, [])]
        assert found == (rates if any(rates) else [])
