# The commands of this project; Meson does the work.   make help
BUILD ?= build
CI ?=
PREFIX ?= /usr/local
werror = $(if $(filter true,$(CI)),true,false)

.PHONY: build webgpu train test check wasm format tidy install clean help
build: $(BUILD)/build.ninja
	ninja -C $(BUILD)

$(BUILD)/build.ninja:
	scripts/setup.sh
	meson setup $(BUILD) -Dwerror=$(werror) -Dprefix=$(PREFIX)

webgpu: build
	scripts/fetch-webgpu.sh
	$(BUILD)/anneal doctor

train: build
	$(BUILD)/anneal train mlp

test:
	scripts/setup.sh test
	BUILD=$(BUILD) scripts/test.sh all

check:
	scripts/setup.sh test
	BUILD=$(BUILD) scripts/test.sh check

wasm:
	scripts/setup.sh test
	BUILD=$(BUILD) scripts/test.sh wasm
	@ls -l $(BUILD)-wasm/apps/wasm/anneal.wasm

format:
	git ls-files '*.c' '*.h' | xargs clang-format-19 -i

tidy: build
	git ls-files 'src/*.c' 'apps/*.c' 'tools/*.c' 'models/*.c' | xargs clang-tidy-19 --quiet -p $(BUILD)

install: build
	meson install -C $(BUILD)

clean:
	rm -rf $(BUILD) $(BUILD)-asan $(BUILD)-wasm

help:
	@echo 'make build     build/anneal and build/libanneal.so (the first time: installs what is missing)'
	@echo 'make webgpu    fetches a WebGPU library, so that --device=webgpu finds the GPU'
	@echo 'make train     the same, then trains a small network on images of clothes'
	@echo 'make test      every test; make check: the fast ones'
	@echo 'make wasm      the compiler core for the browser: build-wasm/apps/wasm/anneal.wasm'
	@echo 'make format    clang-format; make tidy: clang-tidy'
	@echo 'make install   into PREFIX ($(PREFIX)); make clean: removes the build folders'
