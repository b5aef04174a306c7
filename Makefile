# SPDX-License-Identifier: BSD-2-Clause
# make            build/tarry
# make test       unit tests and checks of the tree (./tests/run does that and all the rest)
# make asan tsan  the binary and the unit tests in build/asan, build/tsan, with sanitizers
# make faults     build/faults/tarry, with the kill points of bridge/base/fault.h (so has build/asan/tarry)
# make sim        the simulation (tests/sim/README.md) in build/sim
# make fmt        formats the C files        make fuzz   FUZZ_S=60 seconds each, clang
# make lint       format and clang-tidy, of the C files in FILES="a.c b.h" (all)
# make compdb     compile_commands.json for editors and clang tools
# make docs       etc/man, made from the help texts
# make install    PREFIX, SYSCONFDIR, DESTDIR
# CFLAGS, CPPFLAGS and LDFLAGS are the caller's; HARDEN= leaves hardening to him too.

PREFIX     ?= /usr/local
SYSCONFDIR ?= /etc
B          ?= build
OPT        ?= -O2 -g
FUZZ_S     ?= 60
PKG_CONFIG ?= pkg-config
REVISION   ?= $(shell git describe --always --dirty --abbrev=12 --exclude '*' 2>/dev/null)
REVISION   := $(REVISION)

msgpack := $(shell $(PKG_CONFIG) --exists msgpack && echo msgpack || echo msgpack-c)
PKGS    := glib-2.0 hiredis librabbitmq rdkafka libconfig libuv libmicrohttpd gnutls libcurl jansson openssl $(msgpack)
needed  := $(PKGS) rdkafka >= 2.0 libcurl >= 7.87
ifeq ($(filter clean,$(MAKECMDGOALS)),)
ifneq ($(shell $(PKG_CONFIG) --exists '$(needed)' && echo yes),yes)
$(error Libraries are missing or too old. ./etc/build/install build installs them; \
  docs/reference/platforms.md lists where they are new enough. pkg-config says: \
  $(shell $(PKG_CONFIG) --print-errors --exists '$(needed)' 2>&1))
endif
endif

cfi    := $(if $(filter x86_64-% i386-% i486-% i586-% i686-%,$(shell $(CC) -dumpmachine)),-fcf-protection)
HARDEN ?= -fstack-protector-strong -fstack-clash-protection -U_FORTIFY_SOURCE \
          -D_FORTIFY_SOURCE=3 $(cfi)
WARN   := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wwrite-strings \
          -Wformat=2 -Wundef -Wvla -Wpointer-arith -Wimplicit-fallthrough
cc_all := -std=c11 -D_GNU_SOURCE -I. -MMD -MP -fPIE -pthread $(WARN) $(WERROR) $(OPT) $(HARDEN) \
          $(SAN) $(shell $(PKG_CONFIG) --cflags $(PKGS)) $(CPPFLAGS) $(CFLAGS)
# What is noted of an object's headers holds for B=build and for B=/its/whole/path.
compile = $(CC) -I$(B) $(cc_all) -MT '$$(B)/$(@:$(B)/%=%)'
ld_all := -pie -pthread -Wl,-z,relro,-z,now $(SAN) $(CFLAGS) $(LDFLAGS)
# paho's MQTTClient is linked in, with its symbols hidden, because sources/mqtt/mqtt_heap.c replaces a part of it.
LIBS   := $(shell $(PKG_CONFIG) --libs $(PKGS)) \
          -l:libpaho-mqtt3cs.a -Wl,--exclude-libs,libpaho-mqtt3cs.a -lssl -lcrypto -lm

core  := $(filter-out bridge/main.c,$(wildcard bridge/*.c bridge/*/*.c))
parts := $(patsubst %.c,$(B)/obj/%.o,$(core) $(wildcard sources/*/*.c sinks/*.c sinks/*/*.c)) \
         $(B)/obj/lua.o $(B)/obj/bridge/store/calls.o $(B)/obj/console_files.o $(B)/obj/revision.o \
         $(if $(findstring TARRY_FAULTS,$(CPPFLAGS)),$(B)/obj/tests/fault.o) \
         $(if $(findstring thread,$(filter -fsanitize=%,$(SAN))),$(B)/obj/tests/tsan_threads.o)
rigs  := $(B)/obj/tests/fake_redis.o $(B)/obj/tests/store_calls.o
# The subjects of the unit tests in $(B)/tests/unit: tests/unit_SUBJECT.c.
SUBJECTS ?= $(patsubst tests/unit_%.c,%,$(wildcard tests/unit_*.c))
units := $(B)/obj/tests/unit.o $(SUBJECTS:%=$(B)/obj/tests/unit_%.o)
code  := $(wildcard bridge/*.[ch] bridge/*/*.[ch] sources/*/*.[ch] sinks/*.[ch] sinks/*/*.[ch] tests/*.[ch] \
           tests/sim/*.[ch] tests/sim/core/*.[ch] tests/faults/*.[ch] tests/faults/million/*.[ch] tests/bench/*.[ch] etc/plugin/*.[ch])

all: $(B)/tarry
tests: $(B)/tests/unit $(B)/tests/kafka_mock

# Shared objects of the configuration (plugins = [ ]) can call what plugin.h declares.
$(B)/tarry: $(B)/obj/bridge/main.o $(parts) $(B)/exports
	$(CC) $(ld_all) -Wl,--dynamic-list=$(B)/exports -o $@ $(filter %.o,$^) $(LIBS)
$(B)/exports: etc/build/exports.sh $(shell etc/build/exports.sh headers)
	@mkdir -p $(@D)
	etc/build/exports.sh symbols > $@.new && mv $@.new $@
$(B)/tests/unit: $(units) $(rigs) $(B)/obj/tests/batcher_rig.o $(parts)
	@mkdir -p $(@D)
	$(CC) $(ld_all) -o $@ $^ $(LIBS) -lcmocka
$(B)/tests/kafka_mock: $(B)/obj/tests/kafka_mock.o
	@mkdir -p $(@D)
	$(CC) $(ld_all) -o $@ $^ -lrdkafka
scripts := etc/build/scripts.awk lua/scripts.def
$(B)/bridge/store/calls.h $(B)/bridge/store/calls.c: $(B)/bridge/store/calls.%: $(scripts)
	@mkdir -p $(@D)
	awk -v mode=$* -f $(scripts) > $@.new && mv $@.new $@
$(B)/lua.c: etc/build/embed-lua.sh $(scripts) $(wildcard lua/*.lua lua/lib/*.lua)
	@mkdir -p $(@D)
	etc/build/embed-lua.sh $(wildcard lua/*.lua) > $@.new && mv $@.new $@
$(B)/console_files.c: etc/build/embed-console.sh $(wildcard bridge/admin/console/*)
	@mkdir -p $(@D)
	etc/build/embed-console.sh $(wildcard bridge/admin/console/*) > $@.new && mv $@.new $@
$(B)/obj/lua.o $(B)/obj/bridge/store/calls.o $(B)/obj/console_files.o: $(B)/obj/%.o: $(B)/%.c $(B)/flags | $(B)/bridge/store/calls.h
	@mkdir -p $(@D)
	$(compile) -c -o $@ $<
# (else make takes revision.c for its source)
$(B)/revision: ;
$(B)/obj/revision.o: $(B)/revision $(B)/flags
	@mkdir -p $(@D)
	printf '#include "bridge/base/version.h"\nconst char tarry_revision[] = "%s";\n' '$(REVISION)' \
	  > $(B)/revision.c
	$(compile) -c -o $@ $(B)/revision.c
$(B)/obj/%.o: %.c $(B)/flags | $(B)/bridge/store/calls.h
	@mkdir -p $(@D)
	$(compile) -c -o $@ $<
# What was built with other flags, or from a script that is gone, is built anew.
stamp = $(if $(filter-out $(shell cat $(1) 2>/dev/null | cksum),$(shell echo '$(2)' | cksum)),\
          $(shell mkdir -p $(B) && echo '$(2)' > $(1)))
$(call stamp,$(B)/flags,$(CC) $(filter-out $(WERROR),$(cc_all)))
$(call stamp,$(B)/lua.list,$(wildcard lua/*.lua))
$(call stamp,$(B)/console.list,$(wildcard bridge/admin/console/*))
$(call stamp,$(B)/revision,$(REVISION))
$(B)/lua.c: $(B)/lua.list
$(B)/console_files.c: $(B)/console.list

test: all tests
	tests/check-includes.sh
	$(B)/tests/unit
# One build for AddressSanitizer and the fuzzers, so by clang. NULL + 0, the end of an empty slice, is
# meant: no pointer-overflow.
SAN_asan := -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all \
            -fno-sanitize=pointer-overflow -fno-omit-frame-pointer
asan := B=build/asan CC=clang HARDEN= OPT="-O1 -g1" SAN="$(SAN_asan)" CPPFLAGS="$(CPPFLAGS) -DTARRY_FAULTS"
asan:
	$(MAKE) $(asan) all tests fuzzers
tsan:
	$(MAKE) B=build/tsan HARDEN= OPT="-O1 -g1" SAN=-fsanitize=thread all tests

SIM ?= build/sim
# Needs liblua5.1-0-dev. The objects are position-independent, because the simulation loads the core as a shared object.
sim:
	$(MAKE) B=$(SIM) HARDEN= CFLAGS="$(CFLAGS) -fPIC" \
	  CPPFLAGS="$(CPPFLAGS) $(shell $(PKG_CONFIG) --cflags lua5.1)" $(SIM)/sim $(SIM)/core.so $(SIM)/redis_model_server
comma := ,
sim_model := $(patsubst %.c,$(B)/obj/%.o,$(wildcard tests/sim/redis_model*.c) bridge/base/buf.c bridge/base/mem.c)
# The daemon without what tests/sim/core/ replaces.
$(B)/core.so: $(filter-out $(addprefix $(B)/obj/bridge/,plugins.o $(addprefix base/,loop.o timer.o child.o net.o \
    net_tls.o)) $(B)/obj/sources/% $(B)/obj/sinks/%,$(parts)) $(B)/obj/sinks/queue.o \
    $(patsubst %,$(B)/obj/sources/kafka/kafka%.o,_commit _conf _group _job _marks _offsets _part _pause _start) $(B)/obj/sources/kafka/kafka.o \
    $(B)/obj/sources/mqtt/mqtt_flight.o $(B)/obj/sources/mqtt/mqtt_packet.o \
    $(patsubst %.c,$(B)/obj/%.o,$(wildcard tests/sim/core/*.c))
	$(CC) $(ld_all) -no-pie -shared -Wl,-Bsymbolic -Wl,-z,defs -Wl,--wrap=source_submit \
	  $(addprefix -Wl$(comma)--wrap=,malloc calloc realloc free vasprintf) -o $@ $^ $(LIBS)
$(B)/sim: $(patsubst %.c,$(B)/obj/%.o,$(filter-out tests/sim/redis_model%,$(wildcard tests/sim/*.c))) \
    $(filter-out %/redis_model_server.o,$(sim_model)) $(B)/obj/lua.o
	$(CC) $(ld_all) -o $@ $^ $(shell $(PKG_CONFIG) --libs $(LIBS_SIM)) -ldl
LIBS_SIM := glib-2.0 lua5.1
$(B)/redis_model_server: $(sim_model)
	$(CC) $(ld_all) -o $@ $^ $(shell $(PKG_CONFIG) --libs $(LIBS_SIM))

faults: faults-publisher
	$(MAKE) B=build/$@ CPPFLAGS="$(CPPFLAGS) -DTARRY_FAULTS" all
# The programs that send and receive many messages, without a daemon.
faults-publisher:
	$(MAKE) B=build/faults CPPFLAGS="$(CPPFLAGS) -DTARRY_FAULTS" build/faults/tests/million build/faults/tests/mqtt_load
$(B)/tests/million: $(patsubst %.c,$(B)/obj/%.o,$(wildcard tests/faults/million/*.c))
	@mkdir -p $(@D)
	$(CC) $(ld_all) -o $@ $^ -lrdkafka
$(B)/tests/mqtt_load: $(B)/obj/tests/bench/mqtt_load.o $(B)/obj/tests/bench/lateness.o
	@mkdir -p $(@D)
	$(CC) $(ld_all) -o $@ $^

# Without gcc -fanalyzer: of its twelve findings one was right, since it follows neither uthash nor
# tables that always hold what is looked for.
FILES ?= $(code)
tidy  = -std=c11 -D_GNU_SOURCE -I. -I$(B) $(shell $(PKG_CONFIG) --cflags $(PKGS))
lint: $(B)/bridge/store/calls.h
	clang-format --dry-run -Werror $(FILES)
	printf '%s\n' $(filter-out tests/%,$(filter %.c,$(FILES))) | \
	  xargs -r -P "$$(nproc)" -n 8 sh -c 'clang-tidy --quiet "$$@" -- $(tidy)' tidy
fmt:
	clang-format -i $(code)
compdb:
	@for file in $(filter %.c,$(code)); do \
	  printf '{"directory": "%s", "file": "%s", "command": "cc $(tidy) -c %s"}\n' \
	    "$(CURDIR)" "$$file" "$$file"; done | sed '1s/^/[/; $$!s/$$/,/; $$s/$$/]/' > compile_commands.json
fuzz: asan
	tests/fuzz build/asan/tests $(FUZZ_S)
fuzzers: $(patsubst tests/%.c,$(B)/tests/%,$(wildcard tests/fuzz_*.c))
$(B)/tests/fuzz_%: $(B)/obj/tests/fuzz_%.o $(rigs) $(parts)
	@mkdir -p $(@D)
	$(CC) $(ld_all) -fsanitize=fuzzer -o $@ $^ $(LIBS)

# The manual pages, from the help texts, and the pages made of them; the version in other files. Tests compare.
docs: $(B)/tarry
	etc/build/version.sh
	for p in man/tarry.1 man/tarry.conf.5; do \
	  etc/build/man.py "$${p#*/}" $(B)/tarry > $(B)/doc && cp $(B)/doc etc/$$p; done
	etc/build/man.py cli.md $(B)/tarry > docs/reference/cli.md
	mandoc -Tmarkdown etc/man/tarry.conf.5 > docs/reference/options.md
	etc/build/runbook.py > docs/how-to/runbook.md
	etc/build/http_api.py > docs/reference/http-api.md
ZSH_FOLDER ?= site-functions
# A configuration that is there already is the owner's.
data := $(DESTDIR)$(PREFIX)/share
doc  := $(data)/doc/tarry
install: $(B)/tarry
	install -D -m 755 $(B)/tarry $(DESTDIR)$(PREFIX)/bin/tarry
	for h in $$(etc/build/exports.sh headers); do \
	  install -D -m 644 $$h $(DESTDIR)$(PREFIX)/include/tarry/$$h || exit 1; done
	install -D -m 644 -t $(doc) LICENSE README.md CHANGELOG.md etc/openapi.yaml etc/asyncapi.yaml
	install -D -m 644 -t $(doc)/bridge bridge/README.md
	for f in $$(find docs -type f); do install -D -m 644 $$f $(doc)/$$f || exit 1; done
	install -D -m 644 -t $(doc)/examples $(filter-out %/quickstart.conf,$(wildcard etc/*.conf))
	install -D -m 644 -t $(doc)/examples/grafana etc/grafana/*.json
	install -D -m 644 -t $(doc)/examples/prometheus etc/prometheus/*.yml
	install -D -m 644 -t $(doc)/examples/plugin etc/plugin/Makefile etc/plugin/*.c
	install -D -m 644 -t $(data)/man/man1 etc/man/*.1
	install -D -m 644 -t $(data)/man/man5 etc/man/*.5
	install -D -m 644 etc/completion/tarry.bash $(data)/bash-completion/completions/tarry
	install -D -m 644 etc/completion/tarry.zsh $(data)/zsh/$(ZSH_FOLDER)/_tarry
	install -D -m 644 etc/completion/tarry.fish $(data)/fish/vendor_completions.d/tarry.fish
	install -D -m 644 etc/systemd/sysusers.conf $(DESTDIR)$(PREFIX)/lib/sysusers.d/tarry.conf
	install -D -m 644 -t $(DESTDIR)$(PREFIX)/lib/systemd/system etc/systemd/tarry.service
	sed -i 's,/usr/bin/tarry,$(PREFIX)/bin/tarry,; s,/etc/tarry/,$(SYSCONFDIR)/tarry/,' \
	  $(DESTDIR)$(PREFIX)/lib/systemd/system/tarry.service
	test -e $(DESTDIR)$(SYSCONFDIR)/tarry/tarry.conf || install -D -m 640 \
	  etc/systemd/tarry.conf $(DESTDIR)$(SYSCONFDIR)/tarry/tarry.conf
clean:
	rm -rf build/obj build/tests build/asan build/tsan build/sim build/sim-clang build/coverage build/faults build/mutants \
	  build/tarry build/lua.c build/bridge/store/calls.h build/bridge/store/calls.c build/console_files.c build/console.list \
	  build/lua.list build/flags

-include $(shell find $(B)/obj -name '*.d' 2>/dev/null)
.PHONY: all docs tests test asan tsan sim faults faults-publisher lint fmt compdb fuzz fuzzers install clean
.SECONDARY:
