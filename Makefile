PYTHON ?= python3

.PHONY: demo recording check tests e2e article release publish
demo:
	$(PYTHON) run.py demo

# The demo as the README shows it, from a real run (docs/recording.py); AGAIN=--again records an unchanged demo anew.
recording:
	.venv/bin/python docs/recording.py $(AGAIN)

check:
	$(PYTHON) run.py check

tests:
	$(PYTHON) run.py tests

# Every fault on two real nodes: of kind's where an engine can run it (docs/evidence/e2e.md), else of this machine's own.
e2e:
	@if command -v kind >/dev/null && docker info >/dev/null 2>&1; \
	then echo "==> nodes: kind"; COOPERATOR_NODES=kind $(PYTHON) run.py tests --long e2e -s; \
	else echo "==> nodes: this machine's own"; $(PYTHON) run.py tests --long e2e -s; fi

# The results of the article on incremental rebalancing, on stock Kafka Connect and on this project (benchmarks/article.py).
article:
	.venv/bin/python -m benchmarks.article all

# What a version publishes, from the last commit, into dist/VERSION (docs/releases.md); `publish` sends images and charts.
VERSION ?=
REGISTRY ?=
BASE ?= debian:bookworm-slim
release:
	@.venv/bin/python -m release build --version "$(VERSION)" --registry "$(REGISTRY)" --base "$(BASE)"

publish:
	@.venv/bin/python -m release publish --version "$(VERSION)" --registry "$(REGISTRY)"
