# SPDX-License-Identifier: BSD-2-Clause
# make            build/tarry
# make test       unit tests and checks of the tree (./tests/run does that and all the rest)
# make asan tsan  the binary and the unit tests in build/asan, build/tsan, with sanitizers
# make faults     build/faults/tarry, which can be ended at points of bridge/fault.h
# make lint       format and clang-tidy      make fuzz   FUZZ_S=60 seconds per harness, clang
# make install    PREFIX, SYSCONFDIR, DESTDIR
# CFLAGS, CPPFLAGS and LDFLAGS are the caller's; HARDEN= leaves hardening to him too.

PREFIX     ?= /usr/local
SYSCONFDIR ?= /etc
B          ?= build
OPT        ?= -O2 -g
FUZZ_S     ?= 60
PKG_CONFIG ?= pkg-config

msgpack := $(shell $(PKG_CONFIG) --exists msgpack && echo msgpack || echo msgpack-c)
PKGS    := glib-2.0 hiredis rdkafka libconfig libuv libmicrohttpd libcurl jansson openssl $(msgpack)
ifeq ($(filter clean,$(MAKECMDGOALS)),)
ifneq ($(shell $(PKG_CONFIG) --exists $(PKGS) && echo yes),yes)
$(error Libraries are missing; ./tests/install build gets them on Debian. pkg-config says: \
  $(shell $(PKG_CONFIG) --print-errors --exists $(PKGS) 2>&1))
endif
endif

cfi    := $(if $(filter x86_64 i%86,$(shell uname -m)),-fcf-protection)
HARDEN ?= -fstack-protector-strong -fstack-clash-protection -U_FORTIFY_SOURCE \
          -D_FORTIFY_SOURCE=3 $(cfi)
WARN   := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wwrite-strings \
          -Wformat=2 -Wundef -Wvla -Wpointer-arith -Wimplicit-fallthrough
cc_all := -std=c11 -D_GNU_SOURCE -I. -MMD -MP -fPIE -pthread $(WARN) $(WERROR) $(OPT) $(HARDEN) \
          $(SAN) $(shell $(PKG_CONFIG) --cflags $(PKGS)) $(CPPFLAGS) $(CFLAGS)
ld_all := -pie -pthread -Wl,-z,relro,-z,now $(SAN) $(CFLAGS) $(LDFLAGS)
LIBS   := $(shell $(PKG_CONFIG) --libs $(PKGS)) -lpaho-mqtt3as -lm

parts := $(patsubst %.c,$(B)/obj/%.o,$(filter-out bridge/main.c,$(wildcard bridge/*.c)) \
           $(wildcard sources/*.c sinks/*.c)) $(B)/obj/lua.o \
         $(if $(findstring thread,$(filter -fsanitize=%,$(SAN))),$(B)/obj/tests/tsan_threads.o)
units := $(patsubst tests/%.c,$(B)/tests/%,$(wildcard tests/unit_*.c))
code  := $(wildcard bridge/*.[ch] sources/*.[ch] sinks/*.[ch] tests/*.[ch] tests/faults/*.[ch] \
           tests/faults/million/*.[ch] tests/bench/*.[ch])

all: $(B)/tarry
tests: $(units) $(B)/tests/kafka_mock

$(B)/tarry: $(B)/obj/bridge/main.o $(parts)
	$(CC) $(ld_all) -o $@ $^ $(LIBS)
$(units): $(B)/tests/%: $(B)/obj/tests/%.o $(parts)
	@mkdir -p $(@D)
	$(CC) $(ld_all) -o $@ $^ $(LIBS) -lcmocka
$(B)/tests/kafka_mock: $(B)/obj/tests/kafka_mock.o
	@mkdir -p $(@D)
	$(CC) $(ld_all) -o $@ $^ -lrdkafka
$(B)/lua.c: tests/embed.sh $(wildcard lua/*.lua lua/lib/*.lua)
	@mkdir -p $(@D)
	tests/embed.sh $(wildcard lua/*.lua) > $@.new && mv $@.new $@
$(B)/obj/lua.o: $(B)/lua.c $(B)/flags
	@mkdir -p $(@D)
	$(CC) $(cc_all) -c -o $@ $<
$(B)/obj/%.o: %.c $(B)/flags
	@mkdir -p $(@D)
	$(CC) $(cc_all) -c -o $@ $<
# What was built with other flags, or from a script that is gone, is built anew.
stamp = $(if $(filter-out $(shell cat $(1) 2>/dev/null | cksum),$(shell echo '$(2)' | cksum)),\
          $(shell mkdir -p $(B) && echo '$(2)' > $(1)))
$(call stamp,$(B)/flags,$(CC) $(filter-out $(WERROR),$(cc_all)))
$(call stamp,$(B)/lua.list,$(wildcard lua/*.lua))
$(B)/lua.c: $(B)/lua.list

test: all tests
	tests/check-includes.sh
	@set -e; for t in $(units); do echo "$$t"; "$$t"; done
asan tsan:
	$(MAKE) B=build/$@ HARDEN= OPT="-O1 -g" SAN="$(SAN_$@)" all tests
SAN_asan := -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
SAN_tsan := -fsanitize=thread

faults:
	$(MAKE) B=build/$@ CPPFLAGS="$(CPPFLAGS) -DTARRY_FAULTS" all build/$@/tests/million
$(B)/tests/million: $(patsubst %.c,$(B)/obj/%.o,$(wildcard tests/faults/million/*.c))
	@mkdir -p $(@D)
	$(CC) $(ld_all) -o $@ $^ -lrdkafka

lint:
	clang-format --dry-run -Werror $(code)
	clang-tidy --quiet $(filter-out tests/%,$(filter %.c,$(code))) -- -std=c11 -D_GNU_SOURCE -I. \
	  $(shell $(PKG_CONFIG) --cflags $(PKGS))
fuzz:
	$(MAKE) B=build/fuzz CC=clang HARDEN= OPT="-O1 -g" \
	  SAN="-fsanitize=fuzzer-no-link,address,undefined" fuzzers
	@set -e; for f in $(patsubst tests/%.c,build/fuzz/tests/%,$(wildcard tests/fuzz_*.c)); do \
	  mkdir -p $$f.corpus; $$f -max_total_time=$(FUZZ_S) -timeout=10 -rss_limit_mb=2048 $$f.corpus; done
fuzzers: $(patsubst tests/%.c,$(B)/tests/%,$(wildcard tests/fuzz_*.c))
$(B)/tests/fuzz_%: $(B)/obj/tests/fuzz_%.o $(parts)
	@mkdir -p $(@D)
	$(CC) $(ld_all) -fsanitize=fuzzer -o $@ $^ $(LIBS)

# A configuration that is there already is the owner's.
install: $(B)/tarry
	install -D -m 755 $(B)/tarry $(DESTDIR)$(PREFIX)/bin/tarry
	test -e $(DESTDIR)$(SYSCONFDIR)/tarry.conf || \
	  install -D -m 640 etc/tarry.conf $(DESTDIR)$(SYSCONFDIR)/tarry.conf
clean:
	rm -rf build/obj build/tests build/asan build/tsan build/fuzz build/faults build/mutants \
	  build/tarry build/lua.c \
	  build/lua.list build/flags

-include $(shell find $(B)/obj -name '*.d' 2>/dev/null)
.PHONY: all tests test asan tsan faults lint fuzz fuzzers install clean
.SECONDARY:
