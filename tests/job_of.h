/* SPDX-License-Identifier: BSD-2-Clause */
/* job_of.h - builds a job from the headers in a test's table. Include cmocka.h first. */
#ifndef TESTS_JOB_OF_H
#define TESTS_JOB_OF_H

#include "bridge/job/job.h"

#include <string.h>

/* Build a job with the headers "name: value|name: value". */
static struct job *job_of(const char *headers)
{
    struct job *job = job_new(0);
    while (*headers != '\0') {
        size_t n = strcspn(headers, "|"), name = strcspn(headers, ":");
        assert_int_equal(job_add_header(job, (struct slice){headers, name},
                                        (struct slice){headers + name + 2, n - name - 2},
                                        NULL),
                         0);
        headers += n + (headers[n] == '|');
    }
    return job;
}

#endif
