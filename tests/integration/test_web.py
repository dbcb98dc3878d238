"""The web UI, with a real Locust behind it, over HTTP and in a real browser."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.integration.browser import browser
from tests.waiting import wait_for

ROOT = Path(__file__).parents[2]
SECRET = "tml-canary-5f3a"

Ports = Callable[[], int]

# Whether nothing of a page is wider than so many pixels.
FITS = "most => [document.documentElement, ...document.querySelectorAll('canvas')].every(it => it.scrollWidth <= most)"

# What a browser sends of the form besides our options.
FORM = {"user_count": "2", "spawn_rate": "2", "host": "", "run_time": ""}


def small(ports: Ports, requests: int) -> list[str]:
    return [
        *("--requests", str(requests), "--outstanding", "60", "--max-tokens", "64", "--service-time", "fixed:100ms"),
        *("--engine-port", str(ports()), "--server-port", str(ports()), "--slots", "30", "--run-name", "web"),
    ]


def two_processes(ports: Ports) -> list[str]:
    port = str(ports())
    return ["--processes", "2", "--master-bind-port", port, "--master-port", port]


@contextmanager
def web_ui(cwd: Path, ports: Ports, *args: str, locustfile: Path = ROOT / "locustfiles/soak.py") -> Iterator[str]:
    """Locust with its web UI; the URL of its first page, which ends with a slash."""
    port = ports()
    base_path = dict(pairwise(args)).get("--web-base-path", "")
    url = f"http://127.0.0.1:{port}{base_path}/"
    command = [str(Path(sys.executable).with_name("locust")), "-f", str(locustfile)]
    command += ["--web-host", "127.0.0.1", "--web-port", str(port), *args]
    environment = {**os.environ, "TINKER_API_KEY": SECRET}
    with (cwd / "locust.log").open("wb") as log:
        process = subprocess.Popen(command, cwd=cwd, stdout=log, stderr=log, env=environment)
    try:
        wait_for(lambda: process.poll() is not None or answers(url))
        assert process.poll() is None, (cwd / "locust.log").read_text()
        yield url
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)


@contextmanager
def workers(cwd: Path, master_port: str, count: int) -> Iterator[None]:
    """Load processes that were started apart from their master."""
    command = [str(Path(sys.executable).with_name("locust")), "-f", str(ROOT / "locustfiles/soak.py"), "--worker"]
    with (cwd / "workers.log").open("wb") as log:
        started = [
            subprocess.Popen([*command, "--master-port", master_port], cwd=cwd, stdout=log, stderr=log)
            for _ in range(count)
        ]
    try:
        yield
    finally:
        for process in started:
            process.kill()
            process.wait(30)


def answers(url: str) -> bool:
    try:
        return get(url)[0] == 200
    except OSError:
        return False


def get(url: str, data: dict[str, str] | bytes | None = None, headers: dict[str, str] | None = None) -> tuple[int, str]:
    """Status and body; a POST if there are data, which as a dictionary are a form's fields."""
    body = urllib.parse.urlencode(data).encode() if isinstance(data, dict) else data
    try:
        with urllib.request.urlopen(urllib.request.Request(url, body, headers or {}), timeout=100) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def latest(url: str) -> dict[str, Any]:
    """The latest run as the live page has it."""
    run: dict[str, Any] = json.loads(get(f"{url}soak/data")[1])["runs"][-1]
    return run


def start(url: str, **fields: str) -> dict[str, Any]:
    status, body = get(f"{url}swarm", FORM | fields)
    assert status == 200, body
    answer: dict[str, Any] = json.loads(body)
    return answer


def ended(url: str) -> bool:
    """Whether the latest run has a verdict and another may begin."""
    state = json.loads(get(f"{url}stats/requests")[1])["state"]
    return latest(url)["state"] in ("pass", "fail", "invalid") and state in ("ready", "stopped")


@pytest.mark.parametrize("distributed", [False, True])
def test_each_start_has_a_run_folder_and_reset_leaves_the_ledger_alone(
    tmp_path: Path, free_port: Ports, distributed: bool
) -> None:
    more = two_processes(free_port) if distributed else []
    with web_ui(tmp_path, free_port, *small(free_port, 400), *more) as url:
        if distributed:
            wait_for(lambda: json.loads(get(f"{url}worker-count")[1])["worker_count"] == 2)
        for requests in ("400", "301"):
            answer = start(url, requests=requests, outstanding="40")
            assert answer["success"], answer
            assert get(f"{url}stats/reset", b"") == (200, "ok")
            wait_for(lambda: ended(url), 60)
        runs = json.loads(get(f"{url}soak/data")[1])["runs"]
        assert len({run["name"] for run in runs}) == 2
        assert "report.html" in runs[1]["files"]
        documents = [json.loads((tmp_path / "runs" / run["name"] / "run.json").read_text()) for run in runs]
        futures = [document["futures"] for document in documents]
        assert [one["submitted"] for one in futures] == [one["verified"] for one in futures] == [400, 301]
        assert [document["facts"]["ended"] for document in documents] == ["complete", "complete"]
        assert [document["workload"]["outstanding"] for document in documents] == [40, 40]
        assert "--requests 301" in documents[1]["run"]["command"]
        # The tab's totals are those of the run, from both workers.
        rows = json.loads(get(f"{url}stats/requests")[1])["extended_stats"][0]["data"]
        assert {row["figure"]: row["value"] for row in rows}["delivered"] == "301 of 301"

        pages = get(url)[1] + get(f"{url}soak/live")[1] + get(f"{url}soak/data")[1]
        written = [path.read_bytes() for path in (tmp_path / "runs").rglob("*") if path.is_file()]
        assert SECRET not in pages
        assert not any(SECRET.encode() in content for content in written)
        for name in ("../locust.log", "%2e%2e/locust.log", "logs/../run.json", "nothing"):
            assert get(f"{url}soak/runs/1/{name}")[0] == 404
        assert get(f"{url}soak/runs/3/run.json")[0] == get(f"{url}soak/runs/x/run.json")[0] == 404


def newest(url: str, name: str) -> int:
    """The latest value of one of the live page's series."""
    series = json.loads(get(f"{url}soak/data")[1])["series"]
    return int(series[name][-1]) if series and series[name] else 0


@pytest.mark.parametrize("apart", [False, True])
def test_faults_and_stop_reach_every_worker_in_one_run_after_the_other(
    tmp_path: Path, free_port: Ports, apart: bool
) -> None:
    port = str(free_port())
    args = ["--master", "--expect-workers", "2", "--master-bind-port", port] if apart else two_processes(free_port)
    with (
        web_ui(tmp_path, free_port, *small(free_port, 200_000), *args) as url,
        workers(tmp_path, port, 2) if apart else nullcontext(),
    ):
        wait_for(lambda: json.loads(get(f"{url}worker-count")[1])["worker_count"] == 2)
        for number in (1, 2):
            assert start(url, drain="30s")["success"]
            wait_for(lambda: newest(url, "delivered") > 0)
            assert get(f"{url}soak/faults", b'[{"kind": "http_500", "probability": 0.5}]')[0] == 200
            wait_for(lambda: newest(url, "failed") > 0)
            assert get(f"{url}soak/faults", b"[]")[0] == 200
            assert get(f"{url}stats/reset", b"") == (200, "ok")
            assert get(f"{url}stop", b"")[0] == 200
            wait_for(lambda: ended(url), 60)
            run = json.loads((tmp_path / "runs" / latest(url)["name"] / "run.json").read_text())
            futures, [injected] = run["futures"], run["facts"]["injected"]
            assert latest(url)["number"] == number
            assert len(run["facts"]["workers"]) == 2
            assert futures["submitted"] == futures["delivered"] + futures["failed"]
            assert futures["failed"] == injected["count"] > 0
            assert futures["delivered"] == futures["verified"]
            assert {name: newest(url, name) for name in ("delivered", "failed")} == {
                name: futures[name] for name in ("delivered", "failed")
            }
            assert [event["kind"] for event in run["facts"]["events"]] == ["fault", "fault", "drain"]


def test_what_cannot_be_done_is_a_sentence_in_the_form(tmp_path: Path, free_port: Ports) -> None:
    with web_ui(tmp_path, free_port, *small(free_port, 200_000)) as url:
        for fields, words in (
            ({"outstanding": "many"}, "--outstanding should be a whole number, found 'many'."),
            ({"requests": ""}, "--requests should be a whole number, found ''."),
            ({"drain": "soon"}, "found 'soon'"),
            ({"protocol": "grpc"}, "--protocol should be one of"),
            ({"outstanding": "999999"}, "--outstanding 999999 is more than 2 users"),
            ({"user_count": "0"}, "Number of users should be a whole number of at least 1, found '0'."),
            ({"user_count": "9" * 5000}, "Number of users should have 1,000 characters at most, found 5,000."),
            ({"user_count": "NaN"}, "Number of users should be a whole number of at least 1, found 'NaN'."),
            ({"requests": "9" * 30}, "--requests should be at most"),
            ({"seed": "-1"}, "--seed should be at least 0, found -1."),
            ({"drain": "9" * 400 + "h"}, "at most a year"),
            ({"model": "x" * 100_000}, "--model should have 1,000 characters at most, found 100,000."),
            ({"body_profile": "<script>"}, "found '<script>'."),
            ({"run_dir": "x" * 900}, "can't be made: File name too long"),
            ({"unknown": "x", "requests": "-5"}, "--requests should be at least 1, found -5."),
            ({"spawn_rate": "nan"}, "spawn_rate"),
            ({"run_name": "../../elsewhere"}, "--run-name is part of a folder's name"),
            ({"spawn_rate": "fast"}, "spawn_rate"),
            ({"run_time": "long"}, "Run time should look like"),
            ({"run_time": "0s"}, "Run time should look like"),
            ({"engine_args": "'"}, "--engine-args should be words as a shell takes them"),
            ({"engine_args": "--nonsense"}, "The mock engine refuses its options"),
            ({"engine_args": "--nonsense"}, "The mock engine refuses its options"),  # within the same second
            ({"host": "http://127.0.0.1:1"}, "No server can be reached at http://127.0.0.1:1"),
            ({"host": "nonsense"}, "--host should look like http://HOST:PORT, found 'nonsense'."),
            ({"host": "http://["}, "--host should look like http://HOST:PORT, found 'http://['."),
            ({"host": f"http://{'a' * 70}.example"}, "No server can be reached"),
        ):
            answer = start(url, **fields)
            assert answer["success"] is False, fields
            assert words in answer["message"]
        for body in (b"", b"\xff\xfe=\x00&&&=", b"user_count=2", b'{"user_count": 2}'):  # fields are missing
            status, text = get(f"{url}swarm", body)
            assert (status, json.loads(text)["success"]) == (200, False), text
        assert get(f"{url}swarm")[0] == 405
        assert get(f"{url}soak/data", b"")[0] == 405
        assert get(f"{url}soak/data?length=x&events=-{'9' * 30}")[0] == 200
        assert get(f"{url}soak/runs/{'9' * 5000}/run.json")[0] == 404
        assert get(f"{url}soak/faults")[0] == 409  # no engine yet
        for path in ("swarm", "soak/faults"):  # Locust lets pages of other sites in
            assert get(url + path, FORM, {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"})[0] == 403
        assert get(f"{url}soak/data", headers={"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "cors"})[0] == 403
        defaults = {"engine_args": "", "drain": "1s", "outstanding": "60", "requests": "200000", "protocol": "tinker"}
        assert start(url, **defaults)["success"] is True
        assert "A run is under way" in start(url, user_count="3")["message"]
        for body, words in (
            (b"nonsense", "list of faults"),
            (b"[" * 100_000, "list of faults"),
            (b'[{"kind": "nonsense"}]', "no fault of the kind"),
            (b'[{"kind": "http_500", "probability": -1}]', "probability should be a number of at least 0"),
        ):
            status, text = get(f"{url}soak/faults", body)
            assert (status, words in text) == (400, True), text
        assert get(f"{url}stop", b"")[0] == 200
        assert latest(url)["state"] == "invalid"
        document = json.loads((tmp_path / "runs" / latest(url)["name"] / "run.json").read_text())
        counts = document["futures"]
        assert counts["submitted"] == counts["verified"]  # it drained
        assert counts["abandoned"] == 0


def test_a_web_port_that_is_taken_is_refused_with_a_sentence(tmp_path: Path, free_port: Ports) -> None:
    with socket.create_server(("127.0.0.1", free_port())) as taken:
        port = str(taken.getsockname()[1])
        command = [str(Path(sys.executable).with_name("locust")), "-f", str(ROOT / "locustfiles/soak.py")]
        command += ["--web-host", "127.0.0.1", "--web-port", port, *small(free_port, 1)]
        found = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert found.returncode == 2
    assert f"Port {port} is taken by another program. Stop that program or choose another port with --web-port." in (
        found.stderr
    )
    assert "Traceback" not in found.stderr


def held(url: str) -> int:
    """Futures that are outstanding, in a run that has delivered none yet."""
    series = json.loads(get(f"{url}soak/data")[1])["series"]
    assert not any(series["delivered"])
    return int(series["outstanding"][-1])


def test_a_stop_lets_a_held_engine_go(tmp_path: Path, free_port: Ports) -> None:
    with web_ui(tmp_path, free_port, *small(free_port, 200_000)) as url:
        assert start(url, hold_engine="true", arrivals="constant:10", outstanding="5000", in_flight="2500")["success"]
        wait_for(lambda: held(url) > 0)
        assert get(f"{url}stop", b"")[0] == 200
        run = json.loads((tmp_path / "runs" / latest(url)["name"] / "run.json").read_text())
        assert run["futures"]["submitted"] == run["futures"]["verified"] > 0
        assert [event["kind"] for event in run["facts"]["events"]] == ["drain", "engine"]


def test_a_drain_says_what_it_waits_for_and_can_be_ended(tmp_path: Path, free_port: Ports) -> None:
    args = small(free_port, 200_000)
    with browser() as chromium, web_ui(tmp_path, free_port, *args) as url, ThreadPoolExecutor() as threads:
        assert start(url, service_time="fixed:900s", drain="30m", outstanding="7")["success"]
        wait_for(lambda: held(url) == 7)
        live = chromium.new_page()
        live.goto(f"{url}soak/live")
        stopped = threads.submit(get, f"{url}stop", b"")
        expect(live.locator("#reasons")).to_contain_text("Draining: 7 futures are left, for up to ", timeout=30_000)
        live.get_by_role("button", name="End the wait").click()
        assert stopped.result()[0] == 200
        run = json.loads((tmp_path / "runs" / latest(url)["name"] / "run.json").read_text())
        assert run["futures"]["abandoned"] == 7


def test_of_two_starts_at_once_one_begins_a_run(tmp_path: Path, free_port: Ports) -> None:
    with web_ui(tmp_path, free_port, *small(free_port, 200_000)) as url, ThreadPoolExecutor() as threads:
        both = [threads.submit(start, url, run_name=name, drain="1s") for name in ("one", "other")]
        answers_ = [one.result() for one in both]
        assert sorted(answer["success"] for answer in answers_) == [False, True]
        refusal = next(answer["message"] for answer in answers_ if not answer["success"])
        assert refusal.startswith(("Another run is just being started", "A run is under way"))
        assert len(list((tmp_path / "runs").iterdir())) == 1
        assert get(f"{url}stop", b"")[0] == 200


LOGIN = """
from flask_login import UserMixin
from locust import events
from locustfiles.soak import FuturesUser

@events.init.add_listener
def login(environment, **_):
    if environment.web_ui:
        environment.web_ui.app.secret_key = "x"
        environment.web_ui.login_manager.user_loader(lambda name: None)
"""


def test_nobody_gets_past_the_login(tmp_path: Path, free_port: Ports) -> None:
    locustfile = tmp_path / "with_login.py"
    locustfile.write_text(LOGIN)
    args = [*small(free_port, 400), "--web-login", "--web-base-path", "/lab"]
    with web_ui(tmp_path, free_port, *args, locustfile=locustfile) as url:
        for path in ("", "soak/live", "soak/data", "soak/faults", "soak/runs/1/run.json", "stats/requests"):
            with urllib.request.urlopen(url + path) as response:
                assert urllib.parse.urlsplit(response.url).path == "/lab/login", path
        with urllib.request.urlopen(f"{url}swarm", urllib.parse.urlencode(FORM).encode()) as response:
            assert urllib.parse.urlsplit(response.url).path == "/lab/login"
        assert not (tmp_path / "runs").exists()


def figure(page: Page, name: str) -> int:
    """The number at the beginning of one of the Soak tab's figures."""
    row = page.locator("tr", has=page.get_by_role("cell", name=name, exact=True))
    return int(row.locator("td").nth(1).inner_text().split()[0].replace(",", ""))


def test_a_soak_in_a_browser(tmp_path: Path, free_port: Ports) -> None:
    """Started from the form, watched, disturbed, stopped; the report opened and the files downloaded."""
    args = [*small(free_port, 200_000), *two_processes(free_port), "--web-base-path", "/lab"]
    with browser() as chromium, web_ui(tmp_path, free_port, *args) as url:
        errors: list[str] = []
        elsewhere: list[str] = []

        expect.set_options(timeout=30_000)

        def opened(address: str) -> Page:
            page = chromium.new_page(viewport={"width": 1280, "height": 900})
            page.set_default_timeout(60_000)
            page.on("pageerror", lambda error: errors.append(str(error)))
            page.on("request", lambda request: request.url.startswith(url) or elsewhere.append(request.url))
            page.goto(address)
            return page

        page = opened(url)
        expect(page.get_by_role("button", name="Start")).to_be_enabled()
        page.get_by_text("Custom parameters").click()
        names = page.locator(".MuiAccordionDetails-root [name]").evaluate_all("them => them.map(it => it.name)")
        assert names.index("requests") < names.index("enginePort") < names.index("serverPort")
        page.locator("input[name=outstanding]").fill("many")
        page.get_by_role("button", name="Start").click()
        expect(page.get_by_role("alert").first).to_have_text("--outstanding should be a whole number, found 'many'.")
        page.locator("input[name=outstanding]").fill("50")
        page.get_by_role("button", name="Start").click()

        page.get_by_role("tab", name="Soak").click()
        expect(page.get_by_role("cell", name="50 at most")).to_be_visible()
        wait_for(lambda: figure(page, "delivered") > 0)
        before = figure(page, "delivered")
        wait_for(lambda: figure(page, "delivered") > before)

        live = opened(page.locator("#soak-live").evaluate("link => link.href"))
        expect(live.locator("#charts canvas")).to_have_count(8)
        live.wait_for_function("() => series.t_s.length > 5")
        live.reload()
        live.wait_for_function("() => series.t_s && series.t_s.length > 5 && series.t_s[0] === 0")
        live.locator("#fault-kind").select_option("http_500")
        live.locator("#fault-probability").fill("0.5")
        live.locator("#fault-more").fill("every=never")
        live.get_by_role("button", name="Switch on").click()
        expect(live.locator("#fault-error")).to_contain_text("every should be a number")
        live.locator("#fault-more").fill("every=2 after=0s")
        live.get_by_role("button", name="Switch on").click()
        expect(live.locator("#event-list")).to_contain_text("http_500 (50 % of requests, one request in 2")
        live.wait_for_function("() => series.failed.at(-1) > 0")
        expect(live.locator("#state")).to_contain_text("failed or lost")
        live.get_by_role("button", name="Switch off http_500").click()
        expect(live.locator("#event-list")).to_contain_text("switched off")
        for width in (1280, 400):
            live.set_viewport_size({"width": width, "height": 900})
            live.wait_for_function(FITS, arg=width)

        expect(live.get_by_role("button", name="End the wait")).to_be_hidden()
        page.get_by_role("button", name="Stop").click()
        expect(live.locator("#state")).to_have_text("invalid", timeout=60_000)
        page.get_by_role("tab", name="Download Data").click()
        with page.expect_download() as download:
            page.get_by_text("Download the soak's run.json").click()
        run = json.loads(Path(download.value.path()).read_text())
        counts = run["futures"]
        assert counts["failed"] > 0
        assert counts["submitted"] == counts["delivered"] + counts["failed"]
        assert [event["kind"] for event in run["facts"]["events"]] == ["fault", "fault", "drain"]
        page.get_by_text("Open the soak's report").click()
        expect(page.get_by_role("heading", name="Events")).to_be_visible()
        expect(page.get_by_text("http_500 (50 % of requests")).to_be_visible()
        assert not errors
        assert not elsewhere
