# vouch: everything a developer does. "make help" lists the targets.

GO      ?= go
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
LDFLAGS := -s -w -X main.version=$(VERSION)
BIN     := bin/vouch
PREFIX  ?= /usr/local
ARCH    ?= amd64 arm64
ROUNDS  ?= 100000
# The releases of Debian that the package is tried on.
MACHINES ?= bookworm trixie
LINT    := $(GO) tool -modfile=packaging/tools/go.mod

# The lab's chronyd stands aside, see contrib/lab/roots.
export PATH := $(PATH):$(or $(VOUCH_LAB_CACHE),/var/cache/vouch-lab)/chrony/usr/sbin

# What the lab needs, as Debian packages, each with a file that tells that it is there.
DEBS      := frr:/usr/lib/frr/ospfd unbound:/usr/sbin/unbound iproute2:/sbin/ip procps:/bin/ps
# The tests and measurements want BIRD too, and other releases of both daemons from a root of their own. The
# race detector needs a C compiler; the tests of the package and of contrib the tools that they are for.
TEST_DEBS := $(DEBS) bird2:/usr/sbin/bird debootstrap:/usr/sbin/debootstrap gcc:/usr/bin/gcc libc6-dev:/usr/include/stdlib.h \
	lintian:/usr/bin/lintian shellcheck:/usr/bin/shellcheck groff-base:/usr/bin/groff systemd:/usr/bin/systemd-analyze \
	ansible-core:/usr/bin/ansible-playbook puppet-agent:/usr/bin/puppet netplan.io:/usr/sbin/netplan \
	python3-jinja2:/usr/lib/python3/dist-packages/jinja2/__init__.py systemd-container:/usr/bin/systemd-nspawn \
	bind9-dnsutils:/usr/bin/dig curl:/usr/bin/curl iputils-ping:/bin/ping nginx:/usr/sbin/nginx knot:/usr/sbin/knotd bind9:/usr/sbin/named openssl:/usr/bin/openssl dbus-daemon:/usr/bin/dbus-daemon

.DEFAULT_GOAL := help
.PHONY: help build deps demo-deps demo test test-system unit soak lint bench install deb man uninstall clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## build bin/vouch, one static binary
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o $(BIN) ./agent/cmd/vouch

deps: ## install what the lab, the demo and the tests need (Debian, as root); starts nothing
	@contrib/lab/deps $(TEST_DEBS)
	@contrib/lab/roots

demo-deps:
	@contrib/lab/deps $(DEBS)

demo: demo-deps build ## show the main job on a real network in namespaces (as root; ARGS="-keep" leaves it up)
	$(GO) run ./contrib/demo -vouch $(BIN) $(ARGS)

test: deps build lint test-system ## install what is needed and run all tests, the lab's and the system's too (as root)
	$(GO) test -race -timeout 30m ./...

test-system: deps ## boot Debian machines with systemd and walk the package through its life on them (as root; 5 minutes)
	@contrib/lab/machine $(MACHINES)
	GO='$(GO)' packaging/system/packages $(CURDIR)/bin/system
	VOUCH_MACHINES='$(MACHINES)' VOUCH_DEBS=$(CURDIR)/bin/system $(GO) test -count=1 -tags system -timeout 20m ./packaging/system

unit: ## run the tests that are there without installing anything; the lab's are skipped, loudly, where it cannot run
	$(GO) test ./...

soak: ## make a hundred thousand rounds of every kind of check and see that nothing is left of them (ROUNDS=100000; half an hour)
	$(GO) test -count=1 -timeout 3h -v -run '^TestSoak$$' ./checks/kinds -rounds $(ROUNDS)

lint: ## gofmt, go vet and staticcheck with all checks
	@out=$$(gofmt -l agent checks routers contrib packaging); [ -z "$$out" ] || { echo "gofmt would change: $$out" >&2; exit 1; }
	$(GO) vet ./...
	$(LINT) staticcheck ./...

bench: deps build ## measure against what would be used instead; a quarter of an hour (as root; ARGS="-only query -runs 5")
	$(GO) run ./contrib/bench -vouch $(BIN) $(ARGS)

deb: ## build the Debian packages into bin (ARCH="amd64 arm64", MAINTAINER="Name <address>")
	@for arch in $(ARCH); do GO='$(GO)' packaging/deb/build $$arch bin || exit 1; done

man: build ## write the manual pages vouch.1 and vouch.toml.5 into bin
	@for page in vouch.1 vouch.toml.5; do $(BIN) man $$page >bin/$$page || exit 1; done

install: build man ## install the binary, its manual, the unit and its user (DESTDIR, PREFIX=/usr/local); starts nothing
	install -D -m 0755 $(BIN) $(DESTDIR)$(PREFIX)/bin/vouch
	install -D -m 0644 bin/vouch.1 $(DESTDIR)$(PREFIX)/share/man/man1/vouch.1
	install -D -m 0644 bin/vouch.toml.5 $(DESTDIR)$(PREFIX)/share/man/man5/vouch.toml.5
	install -D -m 0644 packaging/systemd/vouch.service $(DESTDIR)/etc/systemd/system/vouch.service
	install -D -m 0644 packaging/systemd/vouch.catalog $(DESTDIR)$(PREFIX)/lib/systemd/catalog/vouch.catalog
	install -d $(DESTDIR)/etc/vouch $(DESTDIR)$(PREFIX)/share/bash-completion/completions
	$(BIN) completion bash >$(DESTDIR)$(PREFIX)/share/bash-completion/completions/vouch
	@[ -n '$(DESTDIR)' ] || journalctl --update-catalog || true
	sed -i 's|/usr/bin/vouch|$(PREFIX)/bin/vouch|' $(DESTDIR)/etc/systemd/system/vouch.service
	install -D -m 0644 packaging/deb/sysusers.conf $(DESTDIR)/etc/sysusers.d/vouch.conf
	@[ -n '$(DESTDIR)' ] || systemd-sysusers vouch.conf
	@[ -n '$(DESTDIR)' ] || for group in frrvty bird; do \
		if getent group $$group >/dev/null; then systemd-sysusers --inline "m vouch $$group"; fi; done

uninstall: ## remove what install installed; the configuration, the user and what is announced stay
	rm -f $(DESTDIR)$(PREFIX)/bin/vouch $(DESTDIR)$(PREFIX)/share/man/man1/vouch.1 $(DESTDIR)$(PREFIX)/share/man/man5/vouch.toml.5
	@[ -n '$(DESTDIR)' ] || [ ! -d /run/systemd/system ] || systemctl disable --now vouch || true
	rm -f $(DESTDIR)/etc/systemd/system/vouch.service $(DESTDIR)/etc/sysusers.d/vouch.conf
	rm -f $(DESTDIR)$(PREFIX)/lib/systemd/catalog/vouch.catalog $(DESTDIR)$(PREFIX)/share/bash-completion/completions/vouch

clean: ## remove what was built
	rm -rf bin
