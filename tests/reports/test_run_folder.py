"""The run folder: made once, written whole, readable after a kill."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from reports.run_folder import RunFolder, RunFolderError
from reports.schema import LoadFacts


def test_an_existing_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RunFolderError, match="exists already"):
        RunFolder.create(tmp_path)


@pytest.mark.parametrize("make", [lambda path: None, lambda path: path.mkdir(), lambda path: path.touch()])
def test_what_is_no_run_folder_is_not_opened(tmp_path: Path, make: Callable[[Path], None]) -> None:
    path = tmp_path / "run"
    make(path)
    with pytest.raises(RunFolderError, match="is no run folder"):
        RunFolder.open(path)


def test_a_checkpoint_is_an_invalid_run_that_can_be_read(tmp_path: Path, make_facts: Callable[..., LoadFacts]) -> None:
    facts = make_facts(ended=None)
    RunFolder.create(tmp_path / "run").checkpoint(facts)
    document = RunFolder.open(tmp_path / "run").read_document()
    assert document.run.verdict == "invalid"
    assert document.run.reasons == ["The run has not ended."]
    assert document.facts == facts
    assert document.latency_s["submit"].count == 3


def test_a_failed_write_leaves_the_old_document(tmp_path: Path, make_facts: Callable[..., LoadFacts]) -> None:
    folder = RunFolder.create(tmp_path / "run")
    folder.checkpoint(make_facts(name="old", ended=None))
    os.symlink("/dev/full", folder.path / "run.json.new")
    with pytest.raises(RunFolderError, match=r"cannot write .*run\.json: no space left on device"):
        folder.checkpoint(make_facts(name="new", ended=None))
    assert folder.read_document().run.name == "old"


def test_a_folder_that_vanished_is_a_sentence(tmp_path: Path, make_facts: Callable[..., LoadFacts]) -> None:
    folder = RunFolder.create(tmp_path / "run")
    folder.logs.rmdir()
    folder.path.rmdir()
    with pytest.raises(RunFolderError, match="no such file or directory"):
        folder.checkpoint(make_facts())
    with pytest.raises(RunFolderError, match="no such file or directory"):
        folder.timeline_writer()


def test_another_schema_version_is_refused(tmp_path: Path, make_facts: Callable[..., LoadFacts]) -> None:
    folder = RunFolder.create(tmp_path / "run")
    folder.checkpoint(make_facts())
    document = json.loads(folder.run_json.read_text())
    folder.run_json.write_text(json.dumps(document | {"schema_version": 99}))
    with pytest.raises(RunFolderError, match="schema version 99"):
        folder.read_document()


@pytest.mark.parametrize("content", ["", "{", "[]", '{"schema_version": 1}'])
def test_a_broken_document_is_a_sentence(tmp_path: Path, make_facts: Callable[..., LoadFacts], content: str) -> None:
    folder = RunFolder.create(tmp_path / "run")
    folder.checkpoint(make_facts())
    folder.run_json.write_text(content)
    with pytest.raises(RunFolderError, match=r"cannot read .*run\.json"):
        folder.read_document()
