/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fuzz_log.c - libFuzzer: any bytes as the content of a log message. The result is one
 * line without a control character; as JSON it is an object of texts and numbers. A
 * traceparent that is read is written as the same trace.
 *
 * A byte for the format, then lines: an id, a traceparent, the text of the other end, and
 * the message.
 */
#include "bridge/base/log.h"
#include "bridge/base/text.h"
#include "bridge/trace/trace.h"
#include "tests/fuzz.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <jansson.h>
#include <sanitizer/common_interface_defs.h>

int LLVMFuzzerInitialize(int *argc, char ***argv);

enum { LINE_MAX_BYTES = 16384 };
static int ours, file; /* ours: the original stderr; file: replaces it meanwhile */

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    ours = dup(STDERR_FILENO);
    file = memfd_create("log", MFD_CLOEXEC);
    must(ours >= 0 && file >= 0);
    __sanitizer_set_report_fd((void *)(intptr_t)ours);
    return unsetenv("JOURNAL_STREAM");
}

static void check_line(struct slice line, bool json)
{
    json_t *object;

    must(line.n > 0 && line.p[line.n - 1] == '\n' && text_is_utf8(line));
    for (size_t i = 0; i + 1 < line.n; i++)
        must((unsigned char)line.p[i] >= ' ' && line.p[i] != 0x7f);
    if (!json)
        return;
    object = json_loadb(line.p, line.n, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL);
    must(json_is_object(object) && json_is_string(json_object_get(object, "msg")));
    json_decref(object);
}

static void check_trace(struct slice text)
{
    struct trace_context c, again;
    char written[TRACEPARENT_BYTES + 1];
    if (trace_context_read(text, &c) < 0)
        return;
    trace_context_write(&c, written);
    must(trace_context_read(slice_of(written), &again) == 0);
    must(memcmp(c.trace, again.trace, sizeof(c.trace)) == 0 && c.span == again.span &&
         c.sampled == again.sampled);
}

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t n)
{
    char line[LINE_MAX_BYTES];
    struct slice rest = {(const char *)bytes, n};
    const bool json = fuzz_byte(&rest) & 1;
    const struct slice id = fuzz_take(&rest, '\n'), trace = fuzz_take(&rest, '\n');
    char *said = fuzz_text(fuzz_take(&rest, '\n')), *text = fuzz_text(rest);
    const struct log_about about = {
        .route = "r", .job = id, .traceparent = trace, .attempt = 2, .err = said};

    check_trace(trace);
    log_set_format(json ? LOG_JSON : LOG_LOGFMT);
    must(ftruncate(file, 0) == 0 && lseek(file, 0, SEEK_SET) == 0);
    must(dup2(file, STDERR_FILENO) >= 0);
    log_event(LOG_ERROR, &about, "%s", text);
    must(dup2(ours, STDERR_FILENO) >= 0);
    ssize_t got = pread(file, line, sizeof(line), 0);
    must(got > 0 && got < LINE_MAX_BYTES);
    check_line((struct slice){line, (size_t)got}, json);
    free(said);
    free(text);
    return 0;
}
