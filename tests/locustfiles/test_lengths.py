"""Lengths drawn from a trace, and what is said of a file that is none."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from locustfiles.lengths import JobLengths, LengthsError, parse_lengths
from locustfiles.traces import TraceError

PRODUCTION_TRACE = Path(__file__).parents[3] / "shared/data/traces/azure_llm_2023_conv.csv"


def trace(tmp_path: Path, text: str) -> str:
    path = tmp_path / "trace.csv"
    path.write_text(text)
    return f"trace:{path}"


def test_fixed() -> None:
    lengths = parse_lengths("fixed", prompt_tokens=7, max_tokens=9, seed=0)
    assert lengths.of(0) == lengths.of(12345) == JobLengths(7, 9)


def test_a_trace_is_dealt_out_whole_before_any_row_comes_again(tmp_path: Path) -> None:
    rows = [(n, 2 * n) for n in range(1, 21)]
    text = "TIMESTAMP,ContextTokens,GeneratedTokens\n" + "".join(f"x,{p},{o}\n" for p, o in rows)
    lengths = parse_lengths(trace(tmp_path, text), 1, 1, seed=3)
    drawn = [lengths.of(number) for number in range(40)]
    assert Counter(drawn) == Counter({JobLengths(*row): 2 for row in rows})
    assert drawn[:20] == drawn[20:]
    assert drawn == [parse_lengths(trace(tmp_path, text), 1, 1, seed=3).of(number) for number in range(40)]
    assert drawn != [parse_lengths(trace(tmp_path, text), 1, 1, seed=4).of(number) for number in range(40)]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("a,b\n1,2\n", "no column ContextTokens and no column GeneratedTokens; found: a, b"),
        ("ContextTokens\n1\n", "no column GeneratedTokens"),
        ("", "an empty file"),
        ("ContextTokens,GeneratedTokens\n", "no rows"),
        ("ContextTokens,GeneratedTokens\n1,2\n3,many\n", "Line 3"),
        ("ContextTokens,GeneratedTokens\n0,2\n", "Line 2"),
        ("ContextTokens,GeneratedTokens\n1\n", "Line 2"),
    ],
)
def test_a_trace_that_is_none_is_refused(tmp_path: Path, text: str, sentence: str) -> None:
    with pytest.raises(TraceError, match=sentence):
        parse_lengths(trace(tmp_path, text), 1, 1, seed=0)


@pytest.mark.parametrize("spec", ["trace:", "normal"])
def test_other_specs_are_refused(spec: str) -> None:
    with pytest.raises(LengthsError, match="lengths should be"):
        parse_lengths(spec, 1, 1, seed=0)


def test_a_trace_that_is_not_there_is_refused() -> None:
    with pytest.raises(TraceError, match="cannot be read"):
        parse_lengths("trace:/nowhere/trace.csv", 1, 1, seed=0)


@pytest.mark.skipif(not PRODUCTION_TRACE.exists(), reason="the Azure LLM inference trace 2023 is not here")
def test_the_production_trace_has_its_published_mean_lengths() -> None:
    lengths = parse_lengths(f"trace:{PRODUCTION_TRACE}", 1, 1, seed=0)
    drawn = [lengths.of(number) for number in range(19_366)]
    assert round(sum(job.prompt_tokens for job in drawn) / len(drawn)) == 1155
    assert round(sum(job.max_tokens for job in drawn) / len(drawn)) == 211
