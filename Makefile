# Paths below are relative on purpose: the project's own path may hold spaces, which make cannot quote.
.DEFAULT_GOAL := help
.PHONY: help demo test test-core test-citus fuzz drills coverage check audit bench bench-speed bench-context lock
PYTHON ?= python3
PYTEST := pytest -n auto --dist loadfile --no-loadscope-reorder

define bootstrap
@for python in "$(PYTHON)" python3.14 python3.13 python3.12 python3.11; do \
	if "$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then \
		exec "$$python" -I nousweb/runtime/bootstrap.py $(1); \
	fi; \
done; \
echo 'nous: Python 3.11 or newer is needed and none was found: install it, or name it with make PYTHON=...' >&2; \
exit 1
endef

help: ## Show this list
	@sed -n 's/^\([a-z-]*\):.*## /  make \1	/p' Makefile

demo: ## Run the product with demo data at http://127.0.0.1:8000/ (NOUS_PORT, NOUS_DATA_DIR)
	$(call bootstrap,--demo)
	@.venv/bin/python manage.py serve --demo

test: ## Run the tests on a throw-away PostgreSQL (ARGS='-k name' picks some)
	$(call bootstrap,--dev --programs)
	@.venv/bin/python -m $(PYTEST) $(ARGS)

test-core: ## Run the tests of the apps, the API and the pages, without a browser: seven of ten, in half the time
	$(call bootstrap,--dev --programs)
	@.venv/bin/python -m $(PYTEST) -m 'not browser' $(ARGS) \
		tests/lib tests/identity tests/memory tests/context tests/api tests/console tests/mcp

test-citus: ## Run the tests of the apps, the API, the pages and the worker on the Citus cluster that TEST_CITUS_URL names
	@test -n "$$TEST_CITUS_URL" || { echo 'TEST_CITUS_URL names no cluster: docs/operations.md, "Citus".' >&2; exit 2; }
	$(call bootstrap,--dev)
	@.venv/bin/python -m pytest -n 3 --dist loadfile --no-loadscope-reorder -m 'not browser' $(ARGS) $(or $(TESTS),\
		tests/platform/test_distribution.py tests/identity tests/memory tests/context tests/api tests/console tests/mcp \
		tests/interfaces tests/security/test_[ep]*.py tests/security/test_seals.py)

coverage: ## Run the tests and report the lines that none of them reaches (htmlcov/index.html)
	$(call bootstrap,--dev --programs)
	@.venv/bin/python -m coverage erase
	@.venv/bin/python -m coverage run -m $(PYTEST) $(ARGS)
	@.venv/bin/python -m coverage combine --quiet
	@.venv/bin/python -m coverage html --quiet
	@.venv/bin/python -m coverage report

# The checks read the settings; they need neither a database nor a data folder of their own.
check: export NOUS_SECRET_KEY := only-for-make-check-0123456789-abcdefghijklmnopqrstuvwxyz
check: export DATABASE_URL := postgresql:///unused?host=/nonexistent
check: ## Lint, types, dependency direction, migrations, deployment settings
	$(call bootstrap,--dev)
	.venv/bin/python -m ruff check
	.venv/bin/python -m ruff format --check
	.venv/bin/djangofmt --check templates
	.venv/bin/python -m mypy
	.venv/bin/python -c 'from importlinter.cli import lint_imports_command; lint_imports_command()'
	.venv/bin/python -W ignore::RuntimeWarning manage.py makemigrations --check --dry-run
	NOUS_PRODUCTION=1 NOUS_ALLOWED_HOSTS=nous.example.org .venv/bin/python manage.py check --deploy --fail-level WARNING

fuzz: ## Run the fuzzers and attacks at full size (SEED=7 draws other calls; ARGS='-k name' picks some)
	$(call bootstrap,--dev --programs)
	ATTACK_SCALE=full FUZZ_SEED=$(SEED) .venv/bin/python -m pytest -n auto --dist loadfile tests/security tests/interfaces tests/memory/test_learning_concurrent.py $(ARGS)

drills: ## Run the drills of a larger installation: a pooler, a replica, a proxy before two of each, and every page in all modes (SIZE=small: without these, in two minutes)
	$(call bootstrap,--dev --programs drills)
	ATTACK_SCALE=$(or $(SIZE),full) .venv/bin/python -m pytest -n 0 -rs tests/drills $(ARGS)
	$(if $(filter small,$(SIZE)),,AXE_MODES=all .venv/bin/python -m pytest -n 0 tests/e2e/test_accessibility.py)

audit: ## Look for known vulnerabilities of the locked dependencies; says when it could not
	$(call bootstrap,--dev)
	@test -x .venv-audit/bin/python || .venv/bin/python -m uv venv --quiet .venv-audit
	@.venv/bin/python -m uv pip install --quiet --python .venv-audit -r requirements/audit.txt \
		|| echo 'PIP-AUDIT COULD NOT BE INSTALLED.' >&2
	.venv/bin/python requirements/audit.py .venv-audit/bin/pip-audit requirements/*.lock

SEED ?= 1
LOCOMO ?=
BEAM ?=
VECTORS ?=
vectors = $(if $(VECTORS),--vectors $(VECTORS))
bench: ## Measure retrieval on LoCoMo (LOCOMO=file), BEAM (BEAM=folder of chats), pairs and languages, and write docs/benchmarks.md (VECTORS=file keeps embeddings)
	$(call bootstrap,--dev)
	.venv/bin/python -m benchmarks.locomo $(LOCOMO) $(vectors)
	.venv/bin/python -m benchmarks.beam $(BEAM) $(vectors)
	.venv/bin/python -m benchmarks.context_curve $(LOCOMO) $(vectors)
	$(if $(BEAM),.venv/bin/python -m benchmarks.context_curve $(BEAM) $(vectors))
	.venv/bin/python -m benchmarks.fact_pairs
	.venv/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/multilingual.lock \
		|| echo 'THE MULTILINGUAL EMBEDDER COULD NOT BE INSTALLED: it is skipped.' >&2
	.venv/bin/python -m benchmarks.languages
	.venv/bin/python -m benchmarks.tables

bench-speed: ## Measure speed, memory and starts beside mem0, LangGraph, Chroma and an older checkout (BEFORE=folder, with its .venv), and write docs/benchmarks.md
	$(call bootstrap,--dev)
	@test -x .venv-bench/bin/python || .venv/bin/python -m venv .venv-bench
	@.venv-bench/bin/python -m pip install --quiet --disable-pip-version-check -r benchmarks/requirements.txt
	.venv/bin/python -m benchmarks.speed $(if $(BEFORE),--before $(BEFORE))
	.venv/bin/python -m benchmarks.tables

bench-context: ## Measure prompts: evidence by budget (LOCOMO=file), speed (SIZES=10000), mixed load (MINUTES=10)
	$(call bootstrap,--dev)
	.venv/bin/python -m benchmarks.context_curve $(LOCOMO)
	$(if $(BEAM),.venv/bin/python -m benchmarks.context_curve $(BEAM))
	.venv/bin/python -m benchmarks.context_speed --sizes $(or $(SIZES),10000)
	.venv/bin/python -m benchmarks.mixed_load --minutes $(or $(MINUTES),10)

UV_COMPILE = .venv/bin/python -m uv pip compile --universal --python-version 3.11 --generate-hashes \
	--no-emit-index-url --custom-compile-command "make lock"
lock: ## Choose the newest allowed dependencies and write the lock files
	$(call bootstrap,--dev)
	$(UV_COMPILE) pyproject.toml -o requirements/run.lock
	$(UV_COMPILE) --extra fastembed pyproject.toml -o requirements/fastembed.lock
	$(UV_COMPILE) --extra multilingual pyproject.toml -o requirements/multilingual.lock
	$(UV_COMPILE) --extra openai pyproject.toml -o requirements/openai.lock
	$(UV_COMPILE) --extra otel pyproject.toml -o requirements/otel.lock
	$(UV_COMPILE) --extra redis pyproject.toml -o requirements/redis.lock
	$(UV_COMPILE) --group dev pyproject.toml -o requirements/dev.lock
