"""Options in, settings out; and a sentence for what can't be done."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from locustfiles import preflight
from locustfiles.arrivals import schedule
from locustfiles.durations import parse_duration
from locustfiles.options import add_arguments
from locustfiles.settings import Settings, SettingsError, connections, default_run_dir, settings_from


def options(*args: str, **locust_own: Any) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    parsed = parser.parse_args(args)
    for name, value in {"host": None, "num_users": None, "processes": None, "expect_workers": 1, **locust_own}.items():
        setattr(parsed, name, value)
    return parsed


def settings(*args: str, **locust_own: Any) -> Settings:
    return settings_from(options(*args, **locust_own))


def test_the_main_job() -> None:
    found = settings("--outstanding", "17000")
    assert (found.requests, found.max_tokens, found.users, found.outstanding) == (131_072, 8192, 9, 17_000)
    assert found.engine is not None
    assert (found.engine.slots, found.engine.service_time) == (2048, "lognormal:mean=5s,cv=0.8,max=20s")
    assert found.server is not None
    assert (found.server.retrieved_ttl_s, found.server.poll_hold_s) == (300.0, 300.0)
    assert found.target_url == "http://127.0.0.1:8001"
    assert found.observe == "auto"


def test_a_session_that_is_polled_needs_few_connections() -> None:
    """400 submits, 1,000 fetches, the session's poll, and two to spare, for each of eight users."""
    args = ("--outstanding", "131072", "--in-flight", "16384")
    assert connections(settings(*args, "--protocol", "tinker-sessions"), 131_072) == 8 * 1403
    assert connections(settings(*args), 131_072) == 131_072 + 16
    preflight.check_files(settings(*args, "--protocol", "tinker-sessions"), 20_000)
    with pytest.raises(preflight.PreflightError, match="open files"):
        preflight.check_files(settings(*args), 20_000)


@given(
    st.integers(1, 10**5),
    st.integers(1, 5000),
    st.one_of(st.none(), st.integers(1, 8)),
    st.one_of(st.none(), st.integers(1, 60)),
)
def test_users_can_hold_what_is_outstanding_and_every_process_has_one(
    outstanding: int, in_flight: int, processes: int | None, users: int | None
) -> None:
    args = ("--outstanding", str(outstanding), "--in-flight", str(in_flight))
    try:
        found = settings(*args, processes=processes, num_users=users)
    except SettingsError:
        assert (users is not None and (users * in_flight < outstanding or users < (processes or 1))) or (
            outstanding < (processes or 1)
        )
        return
    assert found.outstanding == outstanding <= found.users * in_flight
    assert found.users >= found.processes
    assert users is None or found.users == users


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        (["--requests", "0"], "--requests should be at least 1, found 0"),
        (["--in-flight", "0"], "--in-flight should be at least 1"),
        (["--outstanding", "-5"], "--outstanding should be at least 1, found -5"),
        (["--max-tokens", "0"], "--max-tokens should be at least 1"),
        (["--prompt-tokens", "1" + 9 * "0"], "--prompt-tokens should be at most 10000000, found 1000000000"),
        (["--seed", "-1"], "--seed should be at least 0, found -1"),
        (["--run-name", "a" * 51], "up to 50 letters"),
        (["--engine-port", "99999"], "--engine-port should be between 1 and 65535, found 99999"),
        (["--server-port", "0"], "--server-port should be between 1 and 65535, found 0"),
        (["--poll-preset", "fast"], "one of sdk, sdk-pyqwest, plain-45s, custom, found 'fast'"),
        (["--body-profile", "fat"], "one of seed-equivalent, lean, full, found 'fat'"),
        (["--observe", "pid:x"], "found 'pid:x'"),
        (["--run-name", "../elsewhere"], "--run-name is part of a folder's name"),
        (["--engine-args", "'"], "--engine-args should be words as a shell takes them"),
        (["--threshold", "faild == 0"], "No quantity is named 'faild'"),
        (["--thresholds", "/nowhere/gate.toml"], "cannot read /nowhere/gate.toml"),
    ],
)
def test_bad_values_are_refused(args: list[str], sentence: str) -> None:
    with pytest.raises(SettingsError, match=sentence):
        settings(*args)


def test_more_outstanding_than_the_users_may_have_is_refused() -> None:
    with pytest.raises(SettingsError, match="3000 is more than 1 users x --in-flight 2000"):
        settings("--outstanding", "3000", num_users=1)


def test_fewer_users_than_processes_are_refused() -> None:
    with pytest.raises(SettingsError, match="--processes 4 needs as many users"):
        settings(processes=4, num_users=3)


@pytest.mark.parametrize(
    ("args", "host", "sentence"),
    [
        ([], None, None),
        (["--observe", "none"], None, "needs rss_peak, which is not measured: nothing is observed"),
        ([], "http://localhost:9000", "needs engine_ceiling, which is not measured: the engine is not started here"),
    ],
)
def test_thresholds_on_what_is_not_measured(args: list[str], host: str | None, sentence: str | None) -> None:
    asked = ["--threshold", "rss_peak < 9GB", "--threshold", "throughput >= 0.95 * engine_ceiling"]
    found = settings(*asked, *args, host=host)
    if sentence is None:
        preflight.check_thresholds(found)
        return
    with pytest.raises(preflight.PreflightError, match=sentence):
        preflight.check_thresholds(found)


def test_the_engine_whose_count_is_compared() -> None:
    theirs = settings("--engine-metrics", "http://127.0.0.1:8000/metrics", host="http://127.0.0.1:9000")
    assert theirs.engine_metrics == "http://127.0.0.1:8000/metrics"
    assert settings(host="http://127.0.0.1:9000").engine_metrics is None
    assert settings("--engine-port", "8123").engine_metrics == "http://127.0.0.1:8123/metrics"


@pytest.mark.parametrize(
    ("args", "host", "sentence"),
    [
        (["--engine-metrics", "http://127.0.0.1:8000/metrics"], None, "is for an engine behind --host"),
        (["--engine-metrics", "127.0.0.1:8000"], "http://127.0.0.1:9000", "should look like http://HOST:PORT/metrics"),
        (
            ["--engine-metrics", "http://e/metrics"],
            "http://192.0.2.1:9000",
            "say with --observe which process to watch",
        ),
    ],
)
def test_an_engine_that_cannot_be_asked_is_refused(args: list[str], host: str | None, sentence: str) -> None:
    with pytest.raises(SettingsError, match=sentence):
        settings(*args, host=host)


@pytest.mark.parametrize("host", ["127.0.0.1:8001", "https://127.0.0.1", "http://"])
def test_a_host_that_is_no_url_is_refused(host: str) -> None:
    with pytest.raises(SettingsError, match="http://HOST:PORT"):
        settings(host=host)


@pytest.mark.parametrize(
    ("host", "observe"),
    [("http://127.0.0.1:9000", "port:9000"), ("http://localhost", "port:80"), ("http://192.0.2.1:9000", "none")],
)
def test_with_a_host_nothing_is_started_and_a_local_one_is_observed(host: str, observe: str) -> None:
    found = settings(host=host)
    assert (found.engine, found.server, found.target_url) == (None, None, host)
    assert found.observe == observe


RATES = "stages = [{duration = '10s', rate = 30}, {duration = '10s', rate = 50, ramp = true}]"
NUMBERS = "stages = [{duration = '10s', outstanding = 70}, {duration = '10s', outstanding = 4500, ramp = true}]"


def stages_file(tmp_path: Path, text: str) -> str:
    (tmp_path / "stages.toml").write_text(text)
    return str(tmp_path / "stages.toml")


def test_stages_of_rates_are_open_arrivals_and_have_a_number_of_futures(tmp_path: Path) -> None:
    found = settings("--stages", stages_file(tmp_path, RATES), "--outstanding", "300")
    assert (found.arrivals, found.requests, found.outstanding) == ("constant", 300 + 400, 300)
    assert [stage.rate_per_s for stage in found.stages] == [30, 50]
    poisson = settings("--stages", stages_file(tmp_path, f"arrivals = 'poisson'\n{RATES}"), "--seed", "5")
    assert poisson.arrivals == "poisson"
    scheduled = schedule(poisson.arrivals, poisson.stages, poisson.requests, poisson.seed)
    assert scheduled is not None
    assert len(scheduled.due_s) == poisson.requests


def test_stages_of_numbers_are_closed_arrivals_and_have_users_for_the_largest(tmp_path: Path) -> None:
    found = settings("--stages", stages_file(tmp_path, NUMBERS), "--requests", "9")
    assert (found.arrivals, found.requests, found.outstanding, found.users) == ("closed", 9, 4500, 3)


@pytest.mark.parametrize(
    ("text", "args", "sentence"),
    [
        (RATES, ["--arrivals", "poisson:3"], "and so does --arrivals poisson:3. Leave one of them out"),
        (RATES, ["--requests", "699"], "have 700 futures, and --requests allows 1 to 699"),
        ("stages = [{duration = '1s', rate = 1}]\narrivals = 'poisson'", ["--seed", "2"], "have 0 futures"),
        (NUMBERS, ["--outstanding", "10"], "and so does --outstanding 10. Leave one of them out"),
        ("stages = []", [], "ask for no future"),
    ],
)
def test_stages_that_contradict_other_options_are_refused(
    tmp_path: Path, text: str, args: list[str], sentence: str
) -> None:
    with pytest.raises(SettingsError, match=sentence):
        settings("--stages", stages_file(tmp_path, text), *args)


@pytest.mark.parametrize("arrivals", ["constant:5", "poisson:5", "closed"])
def test_lateness_is_measured_where_futures_have_an_intended_start(arrivals: str) -> None:
    found = settings("--threshold", "lateness_p99 < 10ms", "--arrivals", arrivals)
    if arrivals != "closed":
        preflight.check_thresholds(found)
        return
    with pytest.raises(preflight.PreflightError, match="needs lateness_p99, which is not measured: futures have inten"):
        preflight.check_thresholds(found)


def test_settings_survive_the_way_to_a_worker(tmp_path: Path) -> None:
    stages = ["--stages", stages_file(tmp_path, RATES)]
    found = settings("--outstanding", "500", "--engine-args", "--seed 3 --model 'a b'", *stages)
    assert msgspec.convert(msgspec.to_builtins(found), Settings) == found
    assert found.engine is not None
    assert found.engine.extra_args == ["--seed", "3", "--model", "a b"]


def test_run_folders_are_named_by_time_and_name() -> None:
    assert default_run_dir(Path("runs"), "2026-01-31T23:59:58Z", "soak") == Path("runs/20260131T235958Z-soak")


@pytest.mark.parametrize(("text", "seconds"), [("300s", 300), ("250ms", 0.25), ("1.5m", 90), ("2h", 7200), ("7", 7)])
def test_durations(text: str, seconds: float) -> None:
    assert parse_duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "s", "-1s", "5 s", "1d", "inf", "1e3s"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="length of time"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("outstanding", "processes", "slots", "limit", "sentence"),
    [
        (17_000, 1, 2048, 20_000, None),
        (18_000, 1, 2048, 20_000, "2048 engine slots need about 20166 open files in the server"),
        (30_000, 2, 1, 20_000, "open files in the server"),
        (30_000, 1, 2048, 20_000, "over 1 load processes need about"),
        (500, 1, 64, 512, "open files in one of them, but the limit is 512"),
    ],
)
def test_open_files(outstanding: int, processes: int, slots: int, limit: int, sentence: str | None) -> None:
    found = settings("--outstanding", str(outstanding), "--slots", str(slots), processes=processes)
    if sentence is None:
        preflight.check_files(found, limit)
        return
    with pytest.raises(preflight.PreflightError, match=sentence):
        preflight.check_files(found, limit)


def test_local_ports() -> None:
    here = settings("--outstanding", "30000")
    preflight.check_ports_of_clients(here, None)
    preflight.check_ports_of_clients(here, 10_000)  # of each of four addresses
    there = settings("--outstanding", "30000", host="http://192.0.2.1:9000")
    preflight.check_ports_of_clients(there, 40_000)
    with pytest.raises(preflight.PreflightError, match=r"Up to 30\d+ connections .* --source-addresses"):
        preflight.check_ports_of_clients(there, 30_000)
    foreign = settings("--source-addresses", "192.0.2.7", host="http://192.0.2.1:9000")
    with pytest.raises(preflight.PreflightError, match=r"^No connection can come from 192\.0\.2\.7: Cannot assign"):
        preflight.check_ports_of_clients(foreign, None)


@pytest.mark.parametrize(
    ("client", "percent"), [("load", 0), ("sdk", 2), ("sdk:1", 1), ("sdk:07", 7), ("sdk:100", 100)]
)
def test_the_share_of_the_real_sdk(client: str, percent: int) -> None:
    assert settings("--client", client).real_sdk_percent == percent


@pytest.mark.parametrize("client", ["", "sdk:", "sdk:0", "sdk:101", "sdk:2%", "sdk:-1", "sdk:٣", "tinker", "load:5"])
def test_no_share_of_the_real_sdk(client: str) -> None:
    with pytest.raises(SettingsError, match=r"--client should be load, sdk or sdk:PERCENT"):
        settings("--client", client)


def test_the_real_sdk_speaks_its_own_protocol_only() -> None:
    with pytest.raises(SettingsError, match="--protocol operations is another"):
        settings("--client", "sdk", "--protocol", "operations", host="http://127.0.0.1:9")
