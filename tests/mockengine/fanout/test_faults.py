"""Each mistake that can be chosen shows as the page says, and only it: without it the same work passes."""

from __future__ import annotations

import contextlib
import pickle
import random
import re
import urllib.request
from array import array
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from mockengine import RunningEngine
from mockengine.fanout import timing
from mockengine.fanout.batches import Ended, Submitted, TokenBatch
from mockengine.fanout.delivery import detokenizer_of
from mockengine.fanout.detokenizer import Detokenizer
from mockengine.fanout.faults import FAULTS
from mockengine.fanout.pipeline import Pipeline, PipelineError
from mockengine.fanout.sockets import Sockets
from mockengine.fanout.stages import Account
from mockengine.fanout.streams import TOKENS, make_stream
from mockengine.fanout.timing import Timing
from mockengine.fanout.transport import transport_named
from mockengine.fanout.vocabulary import ids_of, text_of
from tests.mockengine.fanout.test_pipeline import received
from tests.mockengine.fanout.test_serving import answers, ask, fanout, is_right, seen
from tests.waiting import wait_for

PAGE = (Path(__file__).parents[3] / "docs" / "fanout.md").read_text("utf-8")


def test_every_fault_has_its_row_on_the_page_and_there_are_no_others() -> None:
    found = re.findall(r"^\| `(\w+)` \| (.*) \| (.*) \|$", PAGE[PAGE.index("## Faults") :], re.MULTILINE)
    assert found == [(name, *fault) for name, fault in FAULTS.items()]


# In the engine: its answers, and what it said at its end.


def waits(engine: RunningEngine, seed: int, within_s: float = 3.0) -> bool:
    """Whether a client waits in vain, while the engine's health is good."""
    body = b'{"prompt":[1],"max_tokens":30,"n":7,"seed":%d}' % seed
    try:
        urllib.request.urlopen(urllib.request.Request(f"{engine.url}/v1/completions", body), timeout=within_s)
    except TimeoutError:
        with urllib.request.urlopen(f"{engine.url}/health", timeout=within_s) as answer:
            return bool(answer.status == 200)
    return False


def test_a_client_whose_row_has_no_owner_waits_for_ever() -> None:
    with fanout(fanout_fault="no_owner") as engine:
        assert waits(engine, 1)
        assert "has no owner and its row is dropped; its client waits for ever." in engine.stop()
    with fanout() as engine:
        assert not waits(engine, 1)


def test_a_client_whose_abort_has_no_owner_waits_for_ever() -> None:
    with fanout(fanout_fault="abort_without_owner", max_rows=1) as engine:
        assert waits(engine, 1)
        assert "has no owner and is dropped; its client waits for ever." in engine.stop()


DEADLY = [
    ({"fanout_fault": "no_owner", "detokenizers": 2}, "rows have no owner; the scheduler must name each."),
    (
        {"fanout_fault": "abort_without_owner", "detokenizers": 2, "max_rows": 1},
        "The router ends: DeliveryError: The abort of request",
    ),
    ({"fanout_fault": "info_not_padded"}, "The detokenizer 0 ends: IndexError"),
    ({"fanout_fault": "info_not_padded", "detokenizers": 2}, "The router ends: IndexError"),
    ({"fanout_fault": "field_dropped"}, "ends: TypeError"),
    ({"fanout_fault": "few_states"}, "The detokenizer 0 ends: StateError"),
    ({"fanout_fault": "other_transport"}, "is no message over pickle"),
    ({"fanout_fault": "send_fails"}, "The detokenizer 0 ends: OSError: the sending was made to fail"),
]


@pytest.mark.parametrize(("options", "sentence"), DEADLY)
def test_a_fault_that_ends_a_process_ends_the_engine_with_a_sentence(options: Any, sentence: str) -> None:
    with fanout(**options) as engine:
        with ThreadPoolExecutor(4) as threads, contextlib.suppress(OSError):  # connections are cut
            list(threads.map(lambda seed: ask(engine, seed), range(4)))
        wait_for(lambda: engine.has_ended)
        said = engine.stop()
    assert sentence in said
    assert "all are stopped." in said
    assert "Traceback" not in said


WRONG = [
    ({"fanout_fault": "row_doubled"}, "The pipeline delivered"),
    ({"fanout_fault": "rows_swapped"}, "The pipeline delivered"),
    ({"fanout_fault": "missing_as_list"}, "another shape than the row's tokens"),
]


@pytest.mark.parametrize(("options", "sentence"), WRONG)
def test_a_fault_that_spoils_answers_is_found_in_them(options: Any, sentence: str) -> None:
    with fanout(**options) as engine:
        found = answers(engine, 20)
    wrong = [answer for answer in found if isinstance(answer, tuple)]
    assert wrong
    assert {status for status, _ in wrong} == {500}
    assert all(sentence in text for _, text in wrong)
    assert all(is_right(answer, seed) for seed, answer in enumerate(found) if not isinstance(answer, tuple))


def test_times_that_are_forgotten_and_times_that_are_not_set() -> None:
    """The longest time in the queue, and since the sending of the answer, as the HTTP worker saw them."""
    found = {}
    for fault in (None, "timing_forgotten"):
        with fanout(detokenizers=2, **({} if fault is None else {"fanout_fault": fault})) as engine:
            answers(engine, 6)
            found[fault] = max(seen(engine)["queue_time_s"] for _ in range(20))
            assert seen(engine)["since_sent_s"] == 0.0
    assert found[None] > 0
    assert found["timing_forgotten"] == 0.0


def test_a_time_that_is_not_set_is_moved(monkeypatch: pytest.MonkeyPatch) -> None:
    sent = pickle.dumps(Timing(queue=100.0))
    monkeypatch.setattr(timing, "CLOCK_OFFSET_S", timing.CLOCK_OFFSET_S - 1e-6)
    assert pickle.loads(sent).response_sent_time == 0.0
    monkeypatch.setattr(Timing, "moves_unset", True)
    assert pickle.loads(sent).response_sent_time != 0.0  # so an answer was sent when the machine started


# In the pipeline.


def run(fault: str | None, batches: list[TokenBatch], rids: list[str], **topology: Any) -> list[Account]:
    """All batches sent at once; what the processes say when every request has ended."""
    with Pipeline(transport="msgpack", splitter="reference", fault=fault, **topology) as pipeline:
        for number, worker in enumerate(pipeline.workers):
            pipeline.send(worker, Submitted(rids[number :: len(pipeline.workers)]))
        for _ in pipeline.workers:
            pipeline.receive()
        for batch in batches:
            owners = pipeline.workers
            batch.http_worker_ipcs = [owners[row % len(owners)] for row in range(len(batch.rids or ()))]
            pipeline.send(pipeline.entry, batch)
        for _ in rids:
            assert isinstance(pipeline.receive(), Ended)
        return pipeline.shut_down()


def texts(accounts: list[Account]) -> dict[str, str]:
    return {rid: request.text for account in accounts for rid, request in account.delivered.items()}


def steps(rids: list[str], pieces: list[list[int]]) -> list[TokenBatch]:
    """A batch for each piece, with the same ids for all requests."""
    last = len(pieces) - 1
    return [
        TokenBatch(
            rids=list(rids),
            decode_ids=[array("q", piece)] * len(rids),
            finished_reasons=[{"type": "length"} if number == last else None] * len(rids),
        )
        for number, piece in enumerate(pieces)
    ]


def test_a_detokenizer_without_the_state_breaks_characters() -> None:
    """Five rows to two detokenizers: the turn of each request changes with each step."""
    rids = ["a", "b", "c", "d", "e"]
    pieces = [[byte] for byte in ids_of("€€")]
    whole = dict.fromkeys(rids, "€€")
    assert texts(run(None, steps(rids, pieces), rids, detokenizers=2, workers=2)) == whole
    # rows may come before those that went the other way, also the last one, so that the rest is skipped
    found = texts(run("not_sticky", steps(rids, pieces), rids, detokenizers=2, workers=2))
    assert found != whole


def test_states_that_never_advance_cost_the_square_of_the_length() -> None:
    decoded = {}
    for fault in (None, "never_commits"):
        accounts = run(fault, steps(["a"], [[1]] * 100), ["a"], workers=2)
        assert texts(accounts) == {"a": text_of([1] * 100)}
        decoded[fault] = sum(account.decoded for account in accounts)
    assert decoded[None] < 100 * 4  # each step its own token, and those of the step before, which it is decoded with
    assert decoded["never_commits"] == 100 * 101 / 2


def test_the_same_by_a_text_that_never_ends_well() -> None:
    """A model that sends half a character over and over keeps the state from advancing, without any mistake here."""
    detokenizer = Detokenizer()
    for batch in steps(["a"], [ids_of("é")[:1]] * 100):
        detokenizer.text_batch(batch)
    assert detokenizer.decoded == 100 * 101 / 2


def test_a_row_to_another_worker_is_skipped_there(capfd: pytest.CaptureFixture[str]) -> None:
    batches = make_stream(6, is_rich=True, seed=1, owners=["x"], transport=transport_named("msgpack")).batches
    rids = batches[0].rids or []
    with pytest.raises(PipelineError, match="told nothing"):
        run_until_silent("row_misdelivered", batches[:3], rids)
    assert "is not known here, or has ended; its row is skipped." in capfd.readouterr().err


def run_until_silent(fault: str, batches: list[TokenBatch], rids: list[str]) -> None:
    with Pipeline(transport="msgpack", splitter="reference", fault=fault, workers=2) as pipeline:
        for number, worker in enumerate(pipeline.workers):
            pipeline.send(worker, Submitted(rids[number::2]))
            pipeline.receive()
        for batch in batches:
            batch.http_worker_ipcs = [pipeline.workers[row % 2] for row in range(len(rids))]
            pipeline.send(pipeline.entry, batch)
        for _ in rids:
            pipeline.receive(within_s=2.0)


def test_the_rows_before_a_failed_sending_are_delivered_and_none_after(tmp_path: Any) -> None:
    transport = transport_named("msgpack")
    owner = f"ipc://{tmp_path}/w"
    with (
        Sockets() as sockets,
        Pipeline(
            transport="msgpack", splitter="reuse", workers=[owner, "ipc:///nobody"], fault="send_fails"
        ) as pipeline,
    ):
        inbox = sockets.receiver(owner)
        batch = make_stream(10, is_rich=True, seed=1, owners=[owner], transport=transport).batches[0]
        pipeline.send(pipeline.entry, batch)
        rows = received(inbox, 6, transport)
        assert pipeline.exit_code("detokenizer 0") == 1
        assert not inbox.poll(0)
    assert [row.rids for row in rows] == [[rid] for rid in (batch.rids or [])[:6]]  # type: ignore[union-attr]


MANY = 10_500  # rows: more than a queue holds


def to_nobody(fault: str | None, tmp_path: Path) -> int | None:
    """All rows for a worker that is not there. The detokenizer's exit code, None while it goes on."""
    transport = transport_named("msgpack")
    nobody = f"ipc://{tmp_path}/nobody"
    with Pipeline(transport="msgpack", splitter="reuse", workers=[nobody, nobody + "2"], fault=fault) as pipeline:
        for number in range(MANY // 500):
            rids = [f"{number}-{row}" for row in range(500)]
            pipeline.send(pipeline.entry, TokenBatch(rids=rids, http_worker_ipcs=[nobody] * 500))
        with pytest.raises(PipelineError) as caught:
            pipeline.receive(within_s=60.0 if fault is None else 9.0)  # a queue that is full is waited for 5 s
        if "failed" in str(caught.value):
            return pipeline.exit_code("detokenizer 0")
        with Sockets(is_bounded=False) as sockets:  # all of it was kept
            assert len(received(sockets.receiver(nobody), MANY, transport)) == MANY
        return None


def test_a_dead_worker_ends_in_a_full_queue_and_a_sentence(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert to_nobody(None, tmp_path) == 1
    said = capfd.readouterr().err
    assert re.search(r"The detokenizer 0 ends: SendError: 10000 frames wait for ipc://.*nobody, and none was", said)


def test_without_bounds_it_is_a_silent_leak(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert to_nobody("unbounded_queues", tmp_path) is None
    assert "error" not in capfd.readouterr().err


# What is no option: it comes of the numbers of processes.


@pytest.mark.parametrize(
    ("workers", "detokenizers", "most", "low", "high"),
    # Of 8! / 8**8 = 0.24 % of all choices each gets one; that none of 4 gets more than 3 of 9 has 37.5 %.
    [(8, 8, 1, 0.0, 0.006), (9, 4, 3, 0.33, 0.42)],
)
def test_owners_fall_unevenly_on_detokenizers(
    workers: int, detokenizers: int, most: int, low: float, high: float
) -> None:
    draw = random.Random(1)
    addresses = [str(number) for number in range(detokenizers)]
    even = 0
    for _ in range(3_000):
        owners = [f"ipc:///tmp/{draw.getrandbits(64):x}" for _ in range(workers)]
        even += max(Counter(detokenizer_of(owner, addresses) for owner in owners).values()) <= most
    assert low <= even / 3_000 <= high


def test_one_worker_keeps_one_detokenizer_busy_and_the_others_idle() -> None:
    batches = make_stream(8, is_rich=True, seed=1, owners=["x"], transport=transport_named("msgpack")).batches
    rids = batches[0].rids or []
    accounts = run(None, batches, rids, detokenizers=3, workers=1)
    assert texts(accounts) == dict.fromkeys(rids, text_of(TOKENS))
    rows = sorted(account.sent for account in accounts if account.name.startswith("detokenizer"))
    assert rows == [0, 0, 24]
