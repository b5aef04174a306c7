/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * job.c - memory and headers of a job; see job.h.
 *
 * Memory is allocated in chunks that never move, so that slices stay valid. The first
 * chunk contains the job itself.
 */
#include "bridge/job/job.h"
#include "bridge/base/text.h"
#include "bridge/base/mem.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

/* --------------------------------------------------------------------- memory */

struct job_chunk {
    struct job_chunk *next; /* the chunk used before */
    size_t used, size;      /* bytes */
    _Alignas(max_align_t) char bytes[];
};
enum { CHUNK_MIN = 512, ALIGN = _Alignof(max_align_t) };

static struct job_chunk *chunk_new(size_t size, struct job_chunk *next)
{
    struct job_chunk *chunk = mem_alloc(sizeof(*chunk) + size);
    chunk->next = next;
    chunk->size = size;
    return chunk;
}

/* Returns n zeroed bytes, n > 0. */
static void *chunk_take(struct job_chunk **memory, size_t n, size_t align)
{
    struct job_chunk *chunk = *memory;
    size_t at = (chunk->used + align - 1) / align * align;
    if (at > chunk->size || chunk->size - at < n) {
        *memory = chunk = chunk_new(n > CHUNK_MIN ? n : CHUNK_MIN, chunk);
        at = 0;
    }
    chunk->used = at + n;
    return chunk->bytes + at;
}

struct job *job_new(size_t hint_bytes)
{
    struct job_chunk *memory =
        chunk_new(sizeof(struct job) + CHUNK_MIN + hint_bytes, NULL);
    struct job *job = chunk_take(&memory, sizeof(*job), ALIGN);
    job->memory = memory;
    job->partition = -1;
    job->offset = -1;
    return job;
}

void job_free(struct job *job)
{
    if (job == NULL)
        return;
    for (struct job_chunk *chunk = job->memory, *next; chunk; chunk = next) {
        next = chunk->next;
        free(chunk);
    }
}

void *job_memory(struct job *job, size_t n)
{
    return chunk_take(&job->memory, n ? n : 1, ALIGN);
}

struct slice job_copy_slice(struct job *job, struct slice s)
{
    if (s.p == NULL)
        return s;
    char *p = chunk_take(&job->memory, s.n + 1, 1);
    memcpy(p, s.p, s.n);
    return (struct slice){p, s.n};
}

struct slice job_format_number(struct job *job, int64_t n)
{
    char digits[TEXT_DECIMAL_MAX];
    return job_copy_slice(job, (struct slice){digits, text_put_decimal(digits, n)});
}

struct slice job_format(struct job *job, const char *fmt, ...)
{
    va_list ap, again;
    va_start(ap, fmt);
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    must(n >= 0);
    char *p = chunk_take(&job->memory, (size_t)n + 1, 1);
    vsnprintf(p, (size_t)n + 1, fmt, again);
    va_end(again);
    return (struct slice){p, (size_t)n};
}

/* -------------------------------------------------------------------- headers */

enum { HEADERS_FIRST = 8 }; /* initial capacity, doubled when full */

static size_t header_bytes(const struct job *job)
{
    size_t n = 0;
    for (unsigned i = 0; i < job->header_count; i++)
        n += job->headers[i].name.n + job->headers[i].value.n;
    return n;
}

int job_add_header(struct job *job, struct slice name, struct slice value,
                   struct err *err)
{
    const unsigned count = job->header_count;

    if (count >= JOB_HEADERS_MAX)
        return err_set(err, "more than %d headers; send fewer", JOB_HEADERS_MAX);
    if (header_bytes(job) + name.n + value.n > JOB_HEADER_BYTES_MAX)
        return err_set(err,
                       "more than %d bytes of headers; send fewer or shorter headers",
                       JOB_HEADER_BYTES_MAX);
    if (count == 0 || (count >= HEADERS_FIRST && (count & (count - 1)) == 0)) {
        size_t room = count ? 2 * (size_t)count : HEADERS_FIRST;
        struct header *grown = job_memory(job, room * sizeof(*grown));
        if (count > 0)
            memcpy(grown, job->headers, count * sizeof(*grown));
        job->headers = grown;
    }
    job->headers[count] =
        (struct header){job_copy_slice(job, name), job_copy_slice(job, value)};
    job->header_count++;
    return 0;
}

const struct header *job_header(const struct job *job, const char *name)
{
    for (unsigned i = 0; i < job->header_count; i++)
        if (slice_is_nocase(job->headers[i].name, name))
            return &job->headers[i];
    return NULL;
}
