# Every target does its own set-up: a virtual environment in .venv with the tested versions of requirements/.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

# The main job. Every figure can be set: make soak REQUESTS=2000 MAX_TOKENS=512 SERVICE_TIME=fixed:0.5s OUTSTANDING=500
REQUESTS ?= 131072
MAX_TOKENS ?= 8192
OUTSTANDING ?= 17000
SLOTS ?= 2048
SERVICE_TIME ?= lognormal:mean=5s,cv=0.8,max=20s
BODY_PROFILE ?= seed-equivalent
POLL_PRESET ?= sdk
PROTOCOL ?= tinker
RETRIEVED_TTL ?= 300s
LOCUST_ARGS ?=

WORKLOAD = --requests $(REQUESTS) --max-tokens $(MAX_TOKENS) $(OUTSTANDING:%=--outstanding %) --slots $(SLOTS) \
	--service-time '$(SERVICE_TIME)' --body-profile $(BODY_PROFILE) --poll-preset $(POLL_PRESET) \
	--protocol $(PROTOCOL) --retrieved-ttl $(RETRIEVED_TTL) $(LOCUST_ARGS)

# The versions of the SDK that are tried, in an environment of their own each.
SDK_VERSIONS := 0.16.1 0.25.0 0.38.0
SDKS := $(SDK_VERSIONS:%=$(VENV)-sdk-%)

.PHONY: soak outstanding soak-faults soak-frozen web test fuzz parity sdks bench bench-table bench-memory bench-burst bench-engine bench-fanout bench-load bench-served check format lock proto clean
.DEFAULT_GOAL := soak

$(VENV)/made:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "repoll needs Python 3.11 or later, but '$(PYTHON)' is $$($(PYTHON) --version 2>&1). Name another one: make PYTHON=python3.12 ..." >&2; exit 2; }
	@$(PYTHON) -m venv $(VENV) || { echo "$(PYTHON) cannot make a virtual environment; on Debian and Ubuntu install the package python3-venv." >&2; exit 2; }
	@touch $@

$(VENV)/runtime: requirements/runtime.txt pyproject.toml $(VENV)/made
	@echo "installing the tested versions of repoll's dependencies into $(VENV) (about a minute)"
	@$(BIN)/python -m pip install --quiet --quiet --disable-pip-version-check -r requirements/runtime.txt
	@$(BIN)/python -m pip install --quiet --quiet --disable-pip-version-check --no-deps -e .
	@touch $@

$(VENV)/dev: requirements/dev.txt $(VENV)/runtime
	@echo "installing the tools that the tests and checks need"
	@$(BIN)/python -m pip install --quiet --quiet --disable-pip-version-check -r requirements/dev.txt
	@touch $@

soak: $(VENV)/runtime
	@$(BIN)/locust -f locustfiles/soak.py --headless $(WORKLOAD)

web: $(VENV)/runtime
	$(BIN)/locust -f locustfiles/soak.py --web-host 127.0.0.1 --web-port 8089 $(WORKLOAD)

# All futures outstanding at the same time: the engine answers nothing until the last submit was accepted. Eight clients
# poll their sessions, since so many futures polled one by one would need a connection each.
outstanding: $(VENV)/runtime
	@$(BIN)/locust -f locustfiles/soak.py --headless --run-name outstanding $(WORKLOAD) --hold-engine \
		--protocol tinker-sessions --outstanding $(REQUESTS) --users 8 --in-flight $$((($(REQUESTS) + 7) / 8))

# 20,000 futures with a mix of faults, every one accounted for.
soak-faults: $(VENV)/dev
	$(BIN)/python -m pytest -m soak tests/integration/test_fault_soak.py

# A server that stands still for 15 s of 30 has the latencies that arithmetic gives.
soak-frozen: $(VENV)/dev
	$(BIN)/python -m pytest -m soak tests/integration/test_open_arrivals.py

test: $(VENV)/dev
	$(BIN)/python -m pytest

# The two result paths of the server in nine paired rounds, some 20 minutes, and how long it should hold a poll, in an hour;
# QUICK=1: three rounds of 96 results each, and three of polls with all times a twentieth, either in five minutes.
# An interrupted bench goes on where it was; remove experiments/ for a new one.
QUICK ?=
bench: $(VENV)/runtime
	@for profile in seed-equivalent full; do \
		$(BIN)/python -m reports experiment locustfiles/experiments/result-path-$$profile.toml \
			$(if $(QUICK),--out experiments/quick-result-path-$$profile --rounds 3 --args '--requests 96') || exit; \
	done
	@$(BIN)/python -m reports experiment locustfiles/experiments/poll-hold$(if $(QUICK),-quick).toml

# CPU of a result in both result paths, for each body profile and two lengths, in paired rounds: some ten minutes.
bench-table: $(VENV)/runtime
	@for profile in seed-equivalent lean full; do for tokens in 8192 32768; do \
		$(BIN)/python -m reports experiment locustfiles/experiments/result-path-full.toml --rounds 3 \
			--out experiments/table-$$profile-$$tokens --args "--body-profile $$profile --max-tokens $$tokens" || exit; \
	done; done

# Where the server's memory is, and what a burst of results does to everybody else.
bench-memory: $(VENV)/dev
	@$(BIN)/python -m tests.integration.bench_memory
bench-burst: $(VENV)/dev
	@$(BIN)/python -m tests.integration.bench_burst

# Another seed each time, which is printed: make fuzz FUZZ_ARGS='--seed 7 --requests 20000' repeats a run.
FUZZ_ARGS ?=
fuzz: $(VENV)/dev
	@$(BIN)/python -m tests.integration.fuzz_server $(FUZZ_ARGS)

# The real SDK and our load, answer by answer: docs/parity.md.
parity: $(VENV)/dev
	@$(BIN)/python -m tests.integration.parity

sdks: $(VENV)/dev $(SDKS:%=%/made)
	@$(BIN)/python -m tests.integration.sdk_generations $(SDKS)

$(VENV)-sdk-%/made: requirements/sdk-%.txt
	@echo "installing version $* of the tinker SDK into $(VENV)-sdk-$*"
	@$(PYTHON) -m venv $(VENV)-sdk-$*
	@$(VENV)-sdk-$*/bin/python -m pip install --quiet --quiet --disable-pip-version-check --no-deps -r $<
	@touch $@

# GUIDELLM= leaves out the published mock that is measured beside ours, and its 650 MB.
GUIDELLM ?= $(VENV)-guidellm
bench-engine: $(VENV)/runtime $(GUIDELLM:%=%/made)
	@$(BIN)/python -m mockengine.bench $(GUIDELLM:%=--guidellm %/bin/guidellm)

$(VENV)-guidellm/made: requirements/guidellm.txt
	@echo "installing the mock server of guidellm into $(VENV)-guidellm (650 MB, a minute or two)"
	@$(PYTHON) -m venv $(VENV)-guidellm
	@$(VENV)-guidellm/bin/python -m pip install --quiet --quiet --disable-pip-version-check --no-deps -r $<
	@touch $@

# The ways of splitting batches among HTTP workers, over both transports. QUICK=1 takes half a minute.
FANOUT_ARGS ?= $(if $(QUICK),--rounds 6 --rows 1$(comma)32)
FANOUT_RUN := runs/$(shell date -u +%Y%m%dT%H%M%SZ)-fanout
comma := ,
bench-fanout: $(VENV)/runtime
	@for transport in msgpack pickle; do \
		$(BIN)/python -m mockengine.fanout bench --transport $$transport $(FANOUT_ARGS) --output $(FANOUT_RUN)/$$transport \
		&& $(BIN)/python -m reports.rounds $(FANOUT_RUN)/$$transport/raw.jsonl || exit; \
	done

# What the ways of splitting make of a served request's time, in an hour; QUICK=1 takes some four minutes. Ctrl-C ends it
# with a page of the rounds that are whole. It then goes on where it was; remove the folder for a new one.
SERVED_ARGS ?= $(if $(QUICK),--rows 32$(comma)128 --intervals 20ms --rounds 6 --steps 40 --waves 1)
SERVED_RUN := experiments/$(if $(QUICK),quick-)served
bench-served: $(VENV)/runtime
	@trap : INT; $(BIN)/python -m mockengine.fanout end-to-end $(SERVED_ARGS) --output $(SERVED_RUN); code=$$?; \
		$(BIN)/python -m reports.fanout $(SERVED_RUN) && exit $$code

# CPU and memory of the load itself, beside a plain aiohttp client that does the same work; QUICK=1: one round.
LOAD_BENCH_ARGS ?= $(if $(QUICK),--rounds 1 --futures 2000)
bench-load: $(VENV)/runtime
	@$(BIN)/python -m locustfiles.bench $(LOAD_BENCH_ARGS)

check: $(VENV)/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(VENV)/dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# uv resolves for every supported Python at once.
lock: $(VENV)/made
	$(BIN)/python -m pip install --quiet --quiet --disable-pip-version-check uv
	for extra in "runtime --extra json-reencode" "dev --extra json-reencode --extra dev"; do set -- $$extra; name=$$1; shift; \
		{ echo "# Tested versions of every dependency, direct and indirect. Made by: make lock"; \
		  $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --no-header --no-annotate $$* pyproject.toml; } \
		> requirements/$$name.txt; done
	for version in $(SDK_VERSIONS); do \
		{ echo "# The tinker SDK $$version and every dependency, for make sdks. Made by: make lock"; \
		  echo "tinker==$$version" | $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --no-header --no-annotate -; } \
		> requirements/sdk-$$version.txt; done

proto: $(VENV)/dev
	$(BIN)/python -m grpc_tools.protoc --proto_path=. --python_out=. --pyi_out=. server_under_test/proto/sampling.proto

clean:
	rm -rf $(VENV) $(VENV)-guidellm $(SDKS) build *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
