# vouch: everything a developer does. "make help" lists the targets.

GO      ?= go
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
LDFLAGS := -s -w -X main.version=$(VERSION)
BIN     := bin/vouch
PREFIX  ?= /usr/local
LINT    := $(GO) tool -modfile=packaging/tools/go.mod

# What the lab needs, as Debian packages, each with a file that tells that it is there.
DEBS      := frr:/usr/lib/frr/ospfd unbound:/usr/sbin/unbound iproute2:/sbin/ip procps:/bin/ps
# The tests and measurements want BIRD too, and other releases of both daemons from a root of their own. The
# race detector needs a C compiler.
TEST_DEBS := $(DEBS) bird2:/usr/sbin/bird debootstrap:/usr/sbin/debootstrap gcc:/usr/bin/gcc libc6-dev:/usr/include/stdlib.h

.DEFAULT_GOAL := help
.PHONY: help build deps demo-deps demo test unit lint bench install uninstall clean

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

test: deps build lint ## install what is needed and run all tests, the lab's too (as root)
	$(GO) test -race -timeout 30m ./...

unit: ## run the tests that are there without installing anything; the lab's are skipped, loudly, where it cannot run
	$(GO) test ./...

lint: ## gofmt, go vet and staticcheck with all checks
	@out=$$(gofmt -l agent checks routers contrib); [ -z "$$out" ] || { echo "gofmt would change: $$out" >&2; exit 1; }
	$(GO) vet ./...
	$(LINT) staticcheck ./...

bench: deps build ## measure against what would be used instead; 9 minutes (as root; ARGS="-only query -runs 5")
	$(GO) run ./contrib/bench -vouch $(BIN) $(ARGS)

install: build ## install the binary and the unit (DESTDIR, PREFIX=/usr/local); starts nothing
	install -D -m 0755 $(BIN) $(DESTDIR)$(PREFIX)/bin/vouch
	install -D -m 0644 packaging/systemd/vouch.service $(DESTDIR)/etc/systemd/system/vouch.service
	sed -i 's|/usr/local/bin|$(PREFIX)/bin|' $(DESTDIR)/etc/systemd/system/vouch.service

uninstall: ## remove what install installed; the configuration and what is announced stay
	rm -f $(DESTDIR)$(PREFIX)/bin/vouch $(DESTDIR)/etc/systemd/system/vouch.service

clean: ## remove what was built
	rm -rf bin
