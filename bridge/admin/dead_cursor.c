/* SPDX-License-Identifier: BSD-2-Clause */
#include "bridge/admin/dead_cursor.h"
#include "bridge/base/cursor.h"
#include "bridge/job/job.h"

void dead_cursor_add(const struct dead_cursor *c, struct buf *out)
{
    const int64_t numbers[] = {c->bucket, c->end_ms, c->next_us, c->after_ms};
    cursor_add(out, numbers, 4, buf_slice(&c->after));
}

int dead_cursor_read(struct slice text, struct dead_cursor *c)
{
    int64_t numbers[4];
    if (cursor_read(text, numbers, 4, JOB_ID_MAX, &c->after) < 0)
        return -1;
    c->bucket = numbers[0];
    c->end_ms = numbers[1];
    c->next_us = numbers[2];
    c->after_ms = numbers[3];
    return 0;
}
