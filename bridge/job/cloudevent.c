/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cloudevent.c - names and values of event attributes by protocol; see cloudevent.h.
 *
 * No binding sends datacontenttype as a header of its own: it is the content type. If a
 * sender sends both, this file treats datacontenttype as the content type too.
 */
#include "bridge/job/cloudevent.h"
#include "bridge/base/text.h"
#include "bridge/base/when.h"
#include "bridge/job/delay.h"

#include <ctype.h>

/* The printable ASCII characters that HTTP values keep unescaped, besides letters,
 * digits, - and _. */
#define HTTP_PLAIN "!#$&'()*+,./:;<=>?@[\\]^`{|}~"

static const struct slice prefixes[] = {[CE_KAFKA] = SLICE_LIT("ce_"),
                                        [CE_HTTP] = SLICE_LIT("ce-"),
                                        [CE_MQTT] = SLICE_LIT("")};

static const struct slice required[] = {SLICE_LIT("id"), SLICE_LIT("source"),
                                        SLICE_LIT("type"), SLICE_LIT("specversion")};
enum {
    REQUIRED = sizeof(required) / sizeof(required[0]),
    ALL_REQUIRED = (1 << REQUIRED) - 1,
    NAME_MAX_BYTES = 128 /* of an attribute; the specification recommends at most 20 */
};

/* ----------------------------------------------------------------------- names */

static bool is_attribute_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

/* On MQTT, a trace context or control header would have the same name as an attribute.
 * These names keep their meaning as headers. */
static bool is_header_on_mqtt(struct slice name)
{
    const struct delay_rules standard = {0};

    return slice_is(name, "traceparent") || slice_is(name, "tracestate") ||
           delay_is_control(name, &standard);
}

/* Returns the attribute's name in room; p NULL: the header is no attribute. */
static struct slice attribute_of(struct slice header, enum ce_binding in,
                                 char room[NAME_MAX_BYTES])
{
    const struct slice prefix = prefixes[in], none = {NULL, 0};

    if (header.n <= prefix.n || header.n - prefix.n > NAME_MAX_BYTES)
        return none;
    for (size_t i = 0; i < header.n; i++) {
        char c = in == CE_HTTP ? (char)tolower((unsigned char)header.p[i]) : header.p[i];
        if (i < prefix.n ? c != prefix.p[i] : !is_attribute_char(c))
            return none;
        if (i >= prefix.n)
            room[i - prefix.n] = c;
    }
    if (in == CE_MQTT && is_header_on_mqtt(header))
        return none;
    return (struct slice){room, header.n - prefix.n};
}

static bool is_event(const struct job *job, enum ce_binding in)
{
    char room[NAME_MAX_BYTES];
    unsigned seen = 0;

    for (unsigned i = 0; i < job->header_count && seen != ALL_REQUIRED; i++) {
        struct slice name = attribute_of(job->headers[i].name, in, room);
        for (unsigned k = 0; k < REQUIRED && name.p; k++)
            if (job->headers[i].value.n > 0 && slice_eq(name, required[k]))
                seen |= 1U << k;
    }
    return seen == ALL_REQUIRED;
}

bool cloudevent_is(const struct job *job)
{
    return is_event(job, CE_KAFKA);
}

/* -------------------------------------------------------------------------- in */

/* Removes double quotes and their escapes (RFC 9110). out: room for s.n bytes. */
static struct slice unquoted(struct slice s, char *out)
{
    size_t n = 0;

    if (s.n < 2 || s.p[0] != '"' || s.p[s.n - 1] != '"')
        return s;
    for (size_t i = 1; i + 1 < s.n; i++) {
        if (s.p[i] == '\\' && i + 2 < s.n)
            i++;
        out[n++] = s.p[i];
    }
    return (struct slice){out, n};
}

/* Decodes *value into the job's memory. -1: invalid. */
static int http_value(struct job *job, struct slice *value)
{
    char *out = job_memory(job, value->n + 1);
    long n = text_percent_decode(unquoted(*value, out), out);

    if (n < 0)
        return -1;
    *value = (struct slice){out, (size_t)n};
    return text_is_utf8(*value) && text_is_header_value(*value) ? 0 : -1;
}

/* Renames an attribute and decodes its value; leaves other headers unchanged. -1:
 * invalid. */
static int take_in(struct job *job, enum ce_binding from, struct header *h)
{
    char room[NAME_MAX_BYTES];
    struct slice name = attribute_of(h->name, from, room);

    if (name.p == NULL)
        return 0;
    if (from == CE_HTTP && http_value(job, &h->value) < 0)
        return -1;
    h->name = slice_is(name, "datacontenttype") && !job_header(job, "content-type")
                  ? SLICE_LIT("content-type")
                  : job_format(job, "ce_%.*s", SLICE_ARG(name));
    return 0;
}

/* Returns whether h repeats the content type as an attribute. */
static bool is_repeated(const struct job *job, const struct header *h)
{
    const struct header *type = job_header(job, "content-type");

    return slice_is(h->name, "ce_datacontenttype") && type &&
           slice_eq(type->value, h->value);
}

void cloudevent_in(struct job *job, enum ce_binding from)
{
    size_t bytes = 0;
    unsigned count = 0;

    if (from == CE_KAFKA || !is_event(job, from))
        return;
    /* Converts into a copy, because one invalid header leaves all headers unchanged. */
    struct header *headers = job_memory(job, job->header_count * sizeof(*headers));
    for (unsigned i = 0; i < job->header_count; i++) {
        struct header h = job->headers[i];
        if (take_in(job, from, &h) < 0)
            return;
        if (!is_repeated(job, &h))
            headers[count++] = h;
        bytes += h.name.n + h.value.n;
    }
    if (bytes > JOB_HEADER_BYTES_MAX)
        return;
    /* Copies back into the same array: job_add_header() relies on its capacity. */
    memcpy(job->headers, headers, count * sizeof(*headers));
    job->header_count = count;
}

/* ------------------------------------------------------------------------- out */

bool cloudevent_out(const struct header *h, enum ce_binding to, struct buf *out_name,
                    struct buf *out_value)
{
    char room[NAME_MAX_BYTES];
    struct slice name = attribute_of(h->name, CE_KAFKA, room);

    if (to == CE_KAFKA || name.p == NULL)
        return false;
    buf_add_slice(out_name, prefixes[to]);
    buf_add_slice(out_name, name);
    if (to == CE_HTTP)
        text_add_percent(out_value, h->value, HTTP_PLAIN);
    else
        buf_add_slice(out_value, h->value);
    return true;
}

int64_t cloudevent_expires_ms(const struct job *job)
{
    const struct header *h = job_header(job, "ce_expirytime");
    int64_t ms;

    /* An integer is an instant elsewhere, but not in RFC 3339. */
    if (h == NULL || h->value.n < 5 || h->value.p[4] != '-' || !cloudevent_is(job) ||
        when_instant_ms(h->value, &ms, NULL) < 0)
        return 0;
    return ms > 0 ? ms : 1; /* 0 would mean never */
}
