/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fuzz_message.c - libFuzzer: any job as the head of a callback. No header of a message
 * becomes two headers, or a header of the transport or the operator. A redirect to
 * another host contains no credentials.
 *
 * A byte for the kind of request, then lines: the id, the key, and "name=value".
 */
#include "bridge/base/text.h"
#include "sinks/http/http_sink.h"
#include "tests/fuzz.h"

#include <stdlib.h>

int LLVMFuzzerInitialize(int *argc, char ***argv);

static struct http_opts opts;
static struct http_signer *signer;

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    static char name[] = "X-Own", value[] = "1",
                key[] = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";
    static struct pair own[] = {{name, value}};
    static char *keys[] = {key};
    struct err err;

    (void)argc;
    (void)argv;
    opt_defaults(http_opt_rows, &opts);
    free(opts.headers.v); /* none, by default */
    opts.headers = (struct pairs){own, 1};
    signer = http_signer_new(&(struct opt_list){keys, 1}, &err);
    must(signer != NULL);
    return 0;
}

/* Count the lines with that name. */
static unsigned lines_of(const struct http_lines *lines, const char *name)
{
    const size_t n = strlen(name);
    unsigned count = 0;

    for (size_t i = 0; i < http_lines_count(lines); i++) {
        const char *line = http_lines_at(lines, i);
        count += strncasecmp(line, name, n) == 0 && strchr(":;", line[n]);
    }
    return count;
}

/* Check one header in curl's form: "name: value", "name;" for an empty one, "name:" for
 * none. */
static void check_line(const char *line)
{
    const size_t n = strcspn(line, ":;");
    const struct slice name = {line, n};
    const bool none = strcmp(line + n, ":") == 0;

    must(text_is_token(name) && text_is_header_value(slice_of(line)));
    must(none || strcmp(line + n, ";") == 0 || strncmp(line + n, ": ", 2) == 0);
    must(!http_is_transport_header(name) || strcmp(line, "Expect:") == 0);
}

static void check(const struct delivery *d, const struct http_hop *hop)
{
    static const char *const credentials[] = {"authorization", "cookie"},
                             *const webhook[] = {"webhook-id", "webhook-timestamp",
                                                 "webhook-signature"};
    struct http_lines lines = {.text = {0}};
    size_t bytes = 0;

    must(http_lines_make(&lines, d, &opts, hop) <= d->header_count + 1);
    for (size_t i = 0; i < http_lines_count(&lines); i++) {
        const char *line = http_lines_at(&lines, i);
        check_line(line);
        bytes += strlen(line) + 1;
    }
    must(bytes == lines.text.n); /* no NUL within a line */
    must((lines_of(&lines, "content-type") > 0) == !hop->without_body);
    if (!hop->other_origin && !hop->unlisted_host)
        must(lines_of(&lines, "x-own") == 1);
    for (size_t i = 0; hop->other_origin && i < 2; i++)
        must(lines_of(&lines, credentials[i]) == 0);
    for (size_t i = 0; hop->signer && i < 3; i++)
        must(lines_of(&lines, webhook[i]) == 1);
    http_lines_free(&lines);
}

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t n)
{
    struct slice rest = {(const char *)bytes, n};
    const unsigned char flags = fuzz_byte(&rest);
    const struct http_hop hop = {.without_body = flags & 1,
                                 .other_origin = flags & 2,
                                 .unlisted_host = flags & 4,
                                 .signer = flags & 8 ? signer : NULL,
                                 .now_s = 1769860800};
    struct job *job = job_new(n);

    opts.delay_headers = flags & 16;
    job->id = job_copy_slice(job, fuzz_take(&rest, '\n'));
    job->key = flags & 32 ? job_copy_slice(job, fuzz_take(&rest, '\n'))
                          : (struct slice){NULL, 0};
    while (rest.n > 0) {
        struct slice value = fuzz_take(&rest, '\n'), name = fuzz_take(&value, '=');
        if (job_add_header(job, name, value, NULL) < 0)
            break;
    }
    check(&(struct delivery){.job = job,
                             .headers = job->headers,
                             .header_count = job->header_count},
          &hop);
    job_free(job);
    return 0;
}
