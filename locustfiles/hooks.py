"""Locust's events, wired to a run: options, checks, start, drain, verdict and exit code.

``install`` is called once by the locustfile. The process that leads the run (a single one, or the master) has a
Controller; every process that has users has a WorkerRun. Master and workers talk in three messages: the assignment
goes out with Locust's own spawn message, reports come in once a second, and the drain is told by a message of its own,
because Locust's --stop-timeout loses what workers finish late.
"""

from __future__ import annotations

import argparse
import shlex
import signal
import sys
from pathlib import Path
from types import FrameType
from typing import Any, cast

import gevent
import msgspec
from gevent.event import AsyncResult
from locust import events
from locust.env import Environment
from locust.runners import MasterRunner, WorkerRunner

from locustfiles import preflight
from locustfiles.controller import Controller
from locustfiles.locusts_statistics import THIN_EVERY_S, thin
from locustfiles.measures import WorkerReport
from locustfiles.options import add_arguments
from locustfiles.processes import ProcessError, die_with_parent
from locustfiles.settings import Settings, SettingsError, settings_from
from locustfiles.stack import check_options
from locustfiles.terminal import Progress, print_verdict
from locustfiles.web.live import LiveRun
from locustfiles.web.pages import SoakPages
from locustfiles.worker import WorkerRun, begin_run, current_run, current_run_or_none
from reports.exit_codes import EXIT_CODES, EXIT_USAGE
from reports.run_folder import RunFolderError

REPORT = "repoll_report"
DRAIN = "repoll_drain"
REPORT_EVERY_S = 1.0

_UserErrors = (SettingsError, preflight.PreflightError, ProcessError, RunFolderError)


class Assignment(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker has to know: the run's settings and, by Locust's client ids, who takes which share.

    run_dir: the run's folder; on another machine, where a worker's part of it is to be.
    """

    settings: Settings
    workers: list[str]
    run_dir: str


class RunHooks:
    """The listeners of one Locust process."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self._runner = cast(Any, environment.runner)  # Locust does not type which kind it is
        self._is_worker = isinstance(self._runner, WorkerRunner)
        self._controller: Controller | None = None
        self._pages: SoakPages | None = None
        self._start: AsyncResult[str | None] = AsyncResult()
        self._run_time_s: float | None = None
        preflight.raise_open_files_limit()
        if self._is_worker:
            _spare_worker_the_first_interrupt()
            die_with_parent()
            self._runner.register_message(DRAIN, self._on_drain, concurrent=True)
        else:
            self._check_options()
            _interrupt_where_the_main_greenlet_waits()
            if isinstance(self._runner, MasterRunner):
                self._runner.register_message(REPORT, self._on_report)
            gevent.spawn(self._keep_statistics_small)
            if environment.web_ui is not None:
                self._pages = SoakPages(environment, _refusal, self._expect_start)
        environment.events.test_start.add_listener(self._on_test_start)
        environment.events.test_stopping.add_listener(self._on_test_stopping)
        environment.events.test_stop.add_listener(self._on_test_stop)
        environment.events.quitting.add_listener(self._on_quitting)
        environment.events.quit.add_listener(self._on_quit)

    # Before the start

    def _check_options(self) -> None:
        """Refuse what can't be done before anything starts, and say how many users it takes if nobody said it."""
        options = self._options
        sentence = _refusal(options) or (_web_refusal(options) if self._environment.web_ui is not None else None)
        if sentence is not None:
            print(f"locust: error: {sentence}", file=sys.stderr)
            sys.exit(EXIT_USAGE)
        settings = settings_from(options)
        if options.num_users is None:
            options.num_users = settings.users
        if options.spawn_rate is None:
            options.spawn_rate = min(options.num_users, 100)
        if options.headless:
            options.only_summary = True  # the line of progress stands in for Locust's tables
            # Locust's timer would start before the run's processes do; the controller's starts when they are up.
            self._run_time_s, options.run_time = options.run_time, None

    def _keep_statistics_small(self) -> None:
        while True:
            gevent.sleep(THIN_EVERY_S)
            thin(self._environment.stats)

    @property
    def _options(self) -> Any:
        return self._environment.parsed_options

    # The run

    def _on_test_start(self, environment: Environment, **_: Any) -> None:
        if self._is_worker:
            assignment = msgspec.convert(self._options.repoll_assignment, Assignment)
            self._begin_worker(assignment, self._runner.client_id)
            return
        if self._options.headless:
            self._environment.process_exit_code = EXIT_CODES["invalid"]  # until there is a verdict
        self._options.num_users = self._runner.target_user_count  # the web UI may have asked for another number
        try:
            settings = settings_from(self._options)
            workers = sorted(self._runner.clients) if isinstance(self._runner, MasterRunner) else ["local"]
            if len(workers) > self._options.num_users:
                raise SettingsError(
                    f"{len(workers)} workers are connected, more than --users {self._options.num_users}. "
                    "Raise --users, or give as many --expect-workers."
                )
            run_time_s = self._run_time_s or self._options.run_time
            live = LiveRun(settings, run_time_s)
            self._controller = Controller(
                settings,
                len(workers),
                begin_drain=self._begin_drain,
                stop_test=self._stop_test,
                show=Progress(settings.requests).show if self._options.headless else live.add,
                run_time_s=run_time_s,
                command=self._command(),
            )
        except _UserErrors as error:
            self._refuse(str(error))
            return
        if self._pages is not None:
            self._pages.begin(self._controller, live)
        assignment = Assignment(
            settings=settings, workers=workers, run_dir=str(self._controller.folder.path.absolute())
        )
        if isinstance(self._runner, MasterRunner):
            self._options.repoll_assignment = msgspec.to_builtins(assignment)
        else:
            self._begin_worker(assignment, "local")
        self._start.set(None)

    def _expect_start(self) -> AsyncResult[str | None]:
        """What the next start comes to: None once it has begun, else a sentence that says why it has not."""
        self._start = AsyncResult()
        return self._start

    def _command(self) -> str:
        """The command line that repeats the run: Locust's own, and what the web UI's form says otherwise."""
        in_form = self._pages.said_in_form if self._pages is not None else []
        return shlex.join([Path(sys.argv[0]).name, *sys.argv[1:], *in_form])

    def _refuse(self, sentence: str) -> None:
        """The run can't begin. A listener has no way to tell Locust so but to end the greenlet that starts the test."""
        print(f"locust: error: {sentence}", file=sys.stderr)
        self._start.set(sentence)
        if self._options.headless:
            self._environment.process_exit_code = EXIT_USAGE
            self._runner.greenlet.kill(block=False)
        raise gevent.GreenletExit

    def _begin_worker(self, assignment: Assignment, client_id: str) -> None:
        index = assignment.workers.index(client_id)
        run = WorkerRun(assignment.settings, index, len(assignment.workers), Path(assignment.run_dir))
        begin_run(run)
        gevent.spawn(self._report_until_finished, run)

    def _report_until_finished(self, run: WorkerRun) -> None:
        while True:
            finished = run.finished
            self._send(run)
            if finished:
                return
            run.wait_until_finished(REPORT_EVERY_S)

    def _send(self, run: WorkerRun) -> None:
        report = run.report()
        if self._is_worker:
            self._runner.send_message(REPORT, msgspec.to_builtins(report))
        elif self._controller is not None:
            self._controller.receive(report)

    def _on_report(self, msg: Any, **_: Any) -> None:
        if self._controller is not None:
            self._controller.receive(msgspec.convert(msg.data, WorkerReport))

    # The end

    def _stop_test(self) -> None:
        if self._options.headless:
            self._runner.quit()
        else:
            self._runner.stop()

    def _begin_drain(self, timeout_s: float) -> None:
        if isinstance(self._runner, MasterRunner):
            self._runner.send_message(DRAIN, {"timeout_s": timeout_s})
        else:
            gevent.spawn(current_run().finish, timeout_s)

    def _on_drain(self, msg: Any, **_: Any) -> None:
        current_run().finish(msg.data["timeout_s"])

    def _on_test_stopping(self, **_: Any) -> None:
        if self._controller is None:
            return
        try:
            document = self._controller.finish()
        except RunFolderError as error:
            print(f"locust: error: {error}", file=sys.stderr)
            self._environment.process_exit_code = EXIT_CODES["invalid"]
            return
        self._environment.process_exit_code = EXIT_CODES[document.run.verdict]
        if not self._options.headless:
            print_verdict(document, self._controller.folder.path)

    def _on_test_stop(self, **_: Any) -> None:
        """When its last worker has gone missing, a master stops the test, but not itself."""
        if isinstance(self._runner, MasterRunner) and self._options.headless and not self._runner.worker_count:
            gevent.spawn(self._runner.quit)

    def _on_quitting(self, **_: Any) -> None:
        """Ctrl-C and SIGTERM come here first, with the test still running."""
        if self._is_worker:
            run = current_run_or_none()
            if run is not None and not run.finished:
                run.fail(f"Load worker {run.index} was stopped on its own.")
                run.finish(0.0)
                self._send(run)
        elif isinstance(self._runner, MasterRunner):
            # Not stop(): it would wait a minute for the users of a worker that has died.
            self._runner.stop(send_stop_to_client=False)
        else:
            self._runner.stop()

    def _on_quit(self, **_: Any) -> None:
        """Below Locust's own tables, which it prints after the test has stopped."""
        if not self._options.headless or self._is_worker:
            return
        if self._controller is None:
            if self._environment.process_exit_code == EXIT_CODES["invalid"]:
                print("invalid: The run was stopped before its processes were up.", file=sys.stderr)
        elif self._controller.document is not None:
            print_verdict(self._controller.document, self._controller.folder.path)


def _refusal(options: argparse.Namespace) -> str | None:
    """Why a run with these options can't be done; None when nothing is known against it."""
    try:
        settings = settings_from(options)
        preflight.check(settings)
        check_options(settings)
    except _UserErrors as error:
        return str(error)
    return None


def _web_refusal(options: argparse.Namespace) -> str | None:
    """Why the web UI can't be served; Locust itself would end with a traceback."""
    try:
        preflight.check_web_port(options.web_host, options.web_port)
    except preflight.PreflightError as error:
        return str(error)
    return None


def _interrupt_where_the_main_greenlet_waits() -> None:
    """Ctrl-C would else be raised in whatever runs just then: in a future that is being delivered, or in a fork."""
    main = gevent.getcurrent()  # in which Locust tells its listeners of the start
    hub = gevent.get_hub()
    gevent.signal_handler(signal.SIGINT, lambda: hub.loop.run_callback(main.throw, KeyboardInterrupt))


def _spare_worker_the_first_interrupt() -> None:
    """Ctrl-C reaches every process of the terminal, but ending the run in order is the master's task.

    The second one counts: Locust itself sends it to workers that outlive their master by three seconds.
    """

    def first(_signum: int, _frame: FrameType | None) -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)

    signal.signal(signal.SIGINT, first)


def install() -> None:
    """Register with Locust."""
    events.init_command_line_parser.add_listener(add_arguments)
    events.init.add_listener(lambda environment, **_: RunHooks(environment))
