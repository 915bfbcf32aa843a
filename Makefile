# Every target sets up what it needs first; a second run starts in seconds.
# As in scripts/environment.
export CARGO_TARGET_DIR ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/shoal/target
SHELL := /bin/bash
BIN := .venv/bin
PYTEST := $(BIN)/python -m pytest
SEEDS ?= 10000
CYCLES ?= 200
LIMIT ?= 3600
DEAD_S ?= 60

.PHONY: help setup build demo test check bench sim soak storm dead-path jms-matrix jms-oracle kill-tests roam kill-routers replica-kills routing-model spark-tests figures docs fuzz coverage wheel targets wheels image clean

help:  ## show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

setup:
	@scripts/setup

build: setup
	@scripts/build

demo: build  ## see it work: a simulated network, real processes on loopback multicast, a store and Spark
	@$(BIN)/shoal demo

test: build  ## run every test tier
	@scripts/test

check: build  ## formatters, linters, type checkers, layer rules
	@scripts/check

bench: build  ## the NORM benchmark beside libnorm, with and without loss
	$(BIN)/shoal bench norm --segment 1400 --loss 0 --peers libnorm
	$(BIN)/shoal bench norm --segment 1400 --loss 1 --peers libnorm

sim: build  ## a long search for failing simulations: make sim SEEDS=10000
	$(BIN)/python -m shoal.testing.search --seeds $(SEEDS)
	$(BIN)/python -m shoal.testing.search --seeds $(SEEDS) --scenario domain_chaos
	$(BIN)/python -m shoal.testing.store_search --seeds $(SEEDS)
	$(BIN)/python -m shoal.testing.store_search --seeds $(SEEDS) --forward
	$(BIN)/python -m shoal.testing.store_search --seeds $(SEEDS) --group
	cargo run --release -p shoal-sim --example log_crashes -- $(SEEDS)

routing-model: build  ## a long search for seeds that break the routing model: make routing-model SEEDS=3000
	$(BIN)/python tests/sim/routing_model/search.py --seeds $(SEEDS)

kill-tests: build  ## kill stores, publishers, subscribers and workers two hundred times, then Spark jobs: make kill-tests CYCLES=200
	$(BIN)/python tests/e2e/kill_store.py --cycles $(CYCLES)
	$(BIN)/python tests/e2e/kill_forwarding.py $(CYCLES)
	$(BIN)/python tests/e2e/kill_queues.py --cycles $(CYCLES)
	$(BIN)/python tests/e2e/kill_queues.py --cycles $(CYCLES) --group --patience-s 3
	$(BIN)/python tests/e2e/kill_gateway.py --cycles $(CYCLES)
	$(BIN)/python tests/jms/kills.py --cycles $(CYCLES)
	$(BIN)/python tests/spark/kills.py --kills 30 --rows 60000

roam: build  ## fifty programs that roam between daemons that are killed under load: make roam CYCLES=100
	$(BIN)/python tests/e2e/roam_clients.py --kills $(CYCLES)
	$(BIN)/python tests/e2e/roam_clients.py --kills $(CYCLES) --how drain

kill-routers: build  ## kill, stop and cut off routers under load two hundred times: make kill-routers CYCLES=200 (needs root)
	$(BIN)/python tests/e2e/kill_routers.py --cycles $(CYCLES)

replica-kills: build  ## a group of three stores: kills, stops, pulled cables, erased and full disks: make replica-kills CYCLES=200 (needs root)
	$(BIN)/python tests/e2e/kill_group.py --cycles $(CYCLES) --out replica-kills.jsonl

soak: build  ## load while programs freeze and die, overload, cut cables, more parameters with libnorm: 15 minutes
	$(BIN)/python tests/e2e/soak.py --seconds 300
	$(PYTEST) -q tests/e2e/long_soak.py tests/e2e/test_lan.py --timeout 300
	$(PYTEST) -q tests/interop/long_matrix.py --timeout 120

dead-path: build  ## two LANs whose path is dead for a minute: make dead-path DEAD_S=60 (needs root)
	SHOAL_DEAD_PATH_S=$(DEAD_S) $(PYTEST) -q tests/e2e/test_tunnels.py -k dead_path --timeout 900

jms-matrix: build  ## the tests of JMS over every kind of link, the store embedded and in its own process, and kills
	@for each in inproc.embedded norm.embedded tcp.embedded router.embedded norm.process tcp.process; do \
	  export SHOAL_JMS_LINK=$${each%.*} SHOAL_JMS_STORE=$${each#*.}; began=$$(date +%s); \
	  $(PYTEST) -q -n 2 tests/jms || exit 1; \
	  echo "$$SHOAL_JMS_LINK, store $$SHOAL_JMS_STORE: $$(( $$(date +%s) - began )) s"; \
	done
	$(BIN)/python tests/jms/kills.py --cycles 50

jms-oracle: build  ## ask Artemis's Java client what Jakarta Messaging leaves open, and write the page with both answers
	@scripts/peers
	$(BIN)/python tests/jms/oracle/oracle.py

storm: build  ## two hundred and three hundred nodes that start together, and what they cost when idle
	STORM_NODES=200 $(PYTEST) -q -s tests/sim/test_storm.py --timeout 900
	$(BIN)/python tests/e2e/storm.py --nodes 200 --within 10
	$(BIN)/python tests/e2e/storm.py --nodes 300 --within 20

spark-tests: build  ## Spark on a standalone cluster, Spark Connect, declarative pipelines, Java from PyPI
	$(PYTEST) -q tests/spark/long_deployments.py

fuzz: build  ## ten million random datagrams into the engines, a million bodies into the doors of stores and clients
	cargo run --release -p shoal-norm --example fuzz -- 10000000
	$(BIN)/python tests/unit/store/doors.py --inputs 1000000

figures: build  ## measure the documentation's tables again and draw them: make figures LIMIT=3600 (seconds)
	$(BIN)/python -m shoal_bench.figures --docs docs --limit $(LIMIT)

docs: build  ## build the documentation into site/
	@scripts/test docs

coverage: build  ## Python coverage of the unit and simulation tests
	$(PYTEST) tests/unit tests/sim --cov --cov-report=term-missing:skip-covered

wheel: build  ## a wheel and a source distribution, into dist/
	@scripts/wheel dist

targets: build  ## compile the extension for Windows and macOS, without linking it
	@scripts/targets

wheels: build  ## wheels for Linux on x86-64 and ARM, glibc 2.28 and newer, into dist/; tried in an empty environment
	@scripts/wheels dist

image:  ## the container image of a daemon, tried: make image BASE=python:3.13-slim (needs buildah, podman or docker)
	@scripts/image

clean:  ## remove what this clone built (the shared build cache stays)
	rm -rf .venv site dist src/shoal/*.so
