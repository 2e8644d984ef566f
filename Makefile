# `make check` is what the checks of a change run. Everything else is a part of it.
.PHONY: check fmt lint vet test race soak fuzz xcaddy build bench

check:
	.ci/run

fmt:
	gofmt -w $$(git ls-files '*.go')
	go tool -C .ci/tools gofumpt -w $$(git ls-files '*.go' | sed "s#^#$(CURDIR)/#")

lint vet test race soak fuzz xcaddy:
	.ci/run $@

build:
	go build -trimpath -o sluice ./xcaddy

bench:
	go run -trimpath ./bench/run
