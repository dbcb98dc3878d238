"""What is added to Locust's web UI: the Soak tab, the page of live charts, the checked start form, the run's files.

Everything of ours is below ``/soak`` behind Locust's own login. Links are relative, so that --web-base-path and proxies
in front need no words of their own.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, cast

import msgspec
from flask import Blueprint, Response, abort, make_response, request, send_file
from gevent.event import AsyncResult
from gevent.timeout import Timeout
from locust.argument_parser import get_parser, ui_extra_args_dict
from locust.env import Environment
from locust.runners import STATE_INIT, STATE_STOPPED
from locust.web import WebUI
from werkzeug.datastructures import ImmutableMultiDict

from locustfiles.controller import Controller
from locustfiles.web import form
from locustfiles.web.faults import EngineFaultsError, FaultsInForce, described, faults_in_force, in_words, set_faults
from locustfiles.web.files import find, listing
from locustfiles.web.live import Figure, LiveRun
from reports import formats

STARTS_WITHIN_S = 90.0  # engine, server and observer have 30 s each
HERE = Path(__file__).parent

TAB = "soak"
_COLUMNS = (("figure", "Figure"), ("value", "Value"), ("remark", "Remark"))
_DOWNLOADS = {
    "report.html": "Open the soak's report",
    "run.json": "Download the soak's run.json",
    "timeline.csv": "Download the soak's timeline.csv",
    "resources.csv": "Download the soak's resources.csv",
    "histograms.json": "Download the soak's histograms.json",
    "junit.xml": "Download the soak's junit.xml",
    "summary.md": "Download the soak's summary.md",
}
# Added to Locust's page, whose tables take no links, and whose form has no groups and no room for our explanations.
_ADDITION = (
    '<link rel="stylesheet" href="./soak/static/locust.css"><style>{headings}</style>'
    '<a id="soak-live" href="./soak/live">Live charts of the soak</a>'
)
# Nothing comes from another host, whatever a page may be made to show.
_LIVE_POLICY = "default-src 'self'; img-src data:; style-src 'self' 'unsafe-inline'"
# report.html has no scripts, and a log that looks like a page must not become one.
_SAFE = {"X-Content-Type-Options": "nosniff", "Content-Security-Policy": "default-src 'self' 'unsafe-inline' data:"}

_ELSEWHERE = "Pages of other sites may not use this one."

View = Callable[..., Any]


class Run(NamedTuple):
    """One run of this Locust process."""

    controller: Controller
    live: LiveRun

    @property
    def folder(self) -> Path:
        return self.controller.folder.path

    @property
    def over(self) -> bool:
        return self.controller.document is not None

    @property
    def state(self) -> str:
        document = self.controller.document
        if document is not None:
            return document.run.verdict
        return "draining" if self.controller.draining else "running"

    @property
    def reasons(self) -> str:
        """Of the verdict; before there is one, what it waits for."""
        document = self.controller.document
        return " ".join(document.run.reasons) if document else self.controller.waits_for


class SoakPages:
    """The pages of one Locust process that leads runs.

    refusal(options): why a run with these options can't begin; None when it can. expect_start(): what will be None once
    the next run has begun, or the sentence that says why it did not.
    """

    def __init__(
        self,
        environment: Environment,
        refusal: Callable[[argparse.Namespace], str | None],
        expect_start: Callable[[], AsyncResult[str | None]],
    ) -> None:
        self._environment = environment
        self._refusal = refusal
        self._expect_start = expect_start
        self._runs: list[Run] = []
        self._starting = False
        self._files_of_ended: dict[Path, list[str]] = {}
        self._ui = cast(WebUI, environment.web_ui)
        self._options = cast(argparse.Namespace, environment.parsed_options)
        parser = get_parser()
        self._groups = form.groups(parser)
        in_form = ui_extra_args_dict()  # without Locust's own options, of which the form has those it treats itself
        self._addition = _ADDITION.format(headings=form.headings(in_form, self._groups))
        self._actions = [action for name, action in parser.args_included_in_web_ui.items() if name in in_form]
        self._on_command_line = dict(vars(self._options))
        self.said_in_form: list[str] = []  # the latest form, as far as it differs from the command line
        self._add_tab()
        self._add_pages()
        self._wrap("locust.index", self._index)
        self._wrap("locust.request_stats", self._stats)
        self._wrap("locust.swarm", self._swarm)

    def begin(self, controller: Controller, live: LiveRun) -> None:
        """A run has begun."""
        for run in self._runs:
            run.live.forget()
        self._runs.append(Run(controller, live))

    # Locust's own pages

    def _add_tab(self) -> None:
        structure = [{"key": key, "title": title} for key, title in _COLUMNS]
        files = [{"href": f"./soak/runs/latest/{name}", "title": title} for name, title in _DOWNLOADS.items()]
        self._ui.template_args |= {
            "extended_tabs": [{"title": "Soak", "key": TAB}],
            "extended_tables": [{"key": TAB, "structure": structure}],
            "extended_csv_files": files,
        }
        update = self._ui.update_template_args

        def update_and_explain() -> None:
            update()  # type: ignore[no-untyped-call]
            arguments = self._ui.template_args
            arguments["extra_options"] = form.explained(arguments["extra_options"], self._groups)
            arguments["missing_host_warning"] = False  # without a host, a run starts a server of its own

        # Otherwise the form has the options by their names, which tears the groups apart.
        self._ui.app.jinja_env.policies["json.dumps_kwargs"] = {"sort_keys": False}  # type: ignore[union-attr]
        self._ui.update_template_args = update_and_explain  # type: ignore[method-assign]

    def _wrap(self, endpoint: str, wrapped: Callable[[View], View]) -> None:
        views = self._ui.app.view_functions  # type: ignore[union-attr]
        views[endpoint] = self._ui.auth_required_if_enabled(wrapped(views[endpoint]))

    def _index(self, locusts: View) -> View:
        def index() -> Any:
            page = locusts()
            return page.replace("</body>", f"{self._addition}</body>") if isinstance(page, str) else page

        return index

    def _stats(self, locusts: View) -> View:
        def request_stats() -> Any:
            response = locusts()
            if not response.is_json:
                return response
            rows = [figure._asdict() for figure in self._figures()]
            return _json(response.get_json() | {"extended_stats": [{"key": TAB, "data": rows}]})

        return request_stats

    def _figures(self) -> list[Figure]:
        if not self._runs:
            return [Figure("run", "none yet", "Start one with New")]
        run = self._runs[-1]
        return [Figure("run", f"{run.folder.name}: {run.state}", run.reasons), *run.live.figures()]

    def _swarm(self, locusts: View) -> View:
        def swarm() -> Any:
            if _from_elsewhere():
                return _text(_ELSEWHERE, 403)
            if self._starting:
                return self._refused("Another run is just being started. Wait until it has begun or was refused.")
            self._starting = True
            try:
                return self._start(locusts)
            finally:
                self._starting = False

        return swarm

    def _start(self, locusts: View) -> Any:
        sentence = self._take_form()
        if sentence is not None:
            return self._refused(sentence)
        begun = self._expect_start()
        response = locusts()
        if not response.get_json()["success"]:
            return response
        try:
            sentence = begun.get(timeout=STARTS_WITHIN_S)
        except Timeout:
            sentence = f"The run has not begun within {STARTS_WITHIN_S:.0f} s. The Logs tab may say why."
        return response if sentence is None else self._refused(sentence)

    def _take_form(self) -> str | None:
        """Set the options as the form has them, unless that can't be done: then a sentence that says why."""
        runner = self._environment.runner
        if runner is not None and runner.state not in (STATE_INIT, STATE_STOPPED):
            return "A run is under way, and what it was asked to do is fixed. Stop it, and wait until it has ended."
        fields = request.form
        try:
            own = form.locusts_own(fields)
            values = form.typed(self._actions, fields) | own
        except form.FormError as error:
            return str(error)
        sentence = self._refusal(argparse.Namespace(**(vars(self._options) | values)))
        if sentence is None:
            vars(self._options).update(values)
            self.said_in_form = form.as_arguments(self._actions, values, self._on_command_line)
            also = {"--users": own["num_users"], "--host": own["host"], "--run-time": fields.get("run_time")}
            self.said_in_form += [word for option, said in also.items() if said for word in (option, str(said))]
            theirs = [(name, text) for name, text in fields.items(multi=True) if name in form.LOCUSTS_OWN]
            request.form = ImmutableMultiDict(theirs)
        return sentence

    def _refused(self, sentence: str) -> Response:
        return _json({"success": False, "message": sentence, "host": self._environment.host})

    # Pages of our own

    def _add_pages(self) -> None:
        base_path = self._options.web_base_path or ""
        blueprint = Blueprint(TAB, __name__, url_prefix=f"{base_path}/soak", static_folder="static")
        blueprint.before_request(lambda: _text(_ELSEWHERE, 403) if _from_elsewhere() else None)
        for path, view, methods in (
            ("/live", self._live, ["GET"]),
            ("/data", self._data, ["GET"]),
            ("/faults", self._faults, ["GET", "POST"]),
            ("/runs/<number>/<path:name>", self._file, ["GET"]),
        ):
            guarded = self._ui.auth_required_if_enabled(view)
            blueprint.add_url_rule(path, view.__name__.strip("_"), guarded, methods=methods)
        self._ui.app.register_blueprint(blueprint)  # type: ignore[union-attr]

    def _live(self) -> Response:
        response = send_file(HERE / "live.html")
        response.headers["Content-Security-Policy"] = _LIVE_POLICY
        return response

    def _data(self) -> Response:
        """What is new since the reader's last question: all of it when the reader's series is no longer ours."""
        if not self._runs:
            return _json({"runs": [], "series": None})
        run = self._runs[-1]
        history = run.live.history
        generation = f"{len(self._runs)}.{history.stride}"
        theirs = request.args.get("generation", "")
        start = events_start = 0
        if theirs == generation:
            start = max(0, min(request.args.get("length", 0, type=int), len(history)) - 1)
        if theirs.partition(".")[0] == str(len(self._runs)):
            events_start = max(0, request.args.get("events", 0, type=int))
        controller = run.controller
        return _json(
            {
                "generation": generation,
                "start": start,
                "series": history.columns(start),
                "events_start": events_start,
                "events": [
                    {"t_s": event.monotonic_s - controller.started_s, "kind": event.kind, "text": event.text}
                    for event in controller.events[events_start:]
                ],
                "figures": [figure._asdict() for figure in self._figures()],
                "engine": run.live.settings.engine is not None and not run.over,
                "runs": [
                    {
                        "number": number,
                        "name": one.folder.name,
                        "state": one.state,
                        "over": one.over,
                        "reasons": one.reasons,
                        "files": self._files(one),
                    }
                    for number, one in enumerate(self._runs, 1)
                ],
            }
        )

    def _files(self, run: Run) -> list[str]:
        """The run's files, which are looked up once when no more are to come."""
        if not run.over:
            return listing(run.folder)
        if run.folder not in self._files_of_ended:
            self._files_of_ended[run.folder] = listing(run.folder)
        return self._files_of_ended[run.folder]

    def _faults(self) -> Response:
        run = self._runs[-1] if self._runs else None
        if run is None or run.over or run.live.settings.engine is None:
            return _json({"error": "There is no run with a mock engine whose faults could be switched."}, status=409)
        url = run.live.settings.engine.url
        try:
            if request.method == "GET":
                return _json(_shown(faults_in_force(url)))
            rules = msgspec.json.decode(request.get_data(), type=list[dict[str, Any]])
            now = set_faults(url, rules)
        except (msgspec.MsgspecError, RecursionError) as error:
            return _json({"error": f"The request should be a list of faults: {error}."}, status=400)
        except EngineFaultsError as error:
            return _json({"error": str(error)}, status=400)
        run.controller.note_event("fault", described(now.faults))
        return _json(_shown(now))

    def _file(self, number: str, name: str) -> Response:
        """A file of a run, by the run's number, or of the latest one."""
        if number == "latest":
            number = str(len(self._runs))
        known = re.fullmatch("[0-9]{1,9}", number) and 1 <= int(number) <= len(self._runs)
        run = self._runs[int(number) - 1] if known else None
        if run is None:
            abort(_text(f"There is no such run yet: {formats.count(len(self._runs))} have been started here.", 404))
        path = find(run.folder, name)
        if path is None:
            abort(_text(f"The run {run.folder.name} has no file {name}. Reports are written when it has ended.", 404))
        plain = path.suffix not in (".html", ".json", ".csv", ".xml")
        response = send_file(
            path.resolve(),
            mimetype="text/plain; charset=utf-8" if plain else None,
            as_attachment=path.suffix not in (".html", ".log", ".md"),
            download_name=f"{run.folder.name}-{path.name}",
            max_age=0,
        )
        response.headers.update(_SAFE)
        return response


def _from_elsewhere() -> bool:
    """Whether a page of another site asks, other than by a link: Locust's answers may be read by all of them."""
    headers = request.headers
    link = request.method == "GET" and headers.get("Sec-Fetch-Mode") == "navigate"
    return headers.get("Sec-Fetch-Site") == "cross-site" and not link


def _shown(faults: FaultsInForce) -> dict[str, Any]:
    """words: each rule as people read it."""
    return msgspec.structs.asdict(faults) | {"words": [in_words(rule) for rule in faults.faults]}


def _json(content: Any, status: int = 200) -> Response:
    """Locust's Flask is in debug mode, in which its own JSON is indented and slow."""
    return Response(msgspec.json.encode(content), status=status, mimetype="application/json")


def _text(sentence: str, status: int) -> Response:
    return make_response(sentence, status, {"Content-Type": "text/plain; charset=utf-8", **_SAFE})
