/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fuzz_job.c - libFuzzer: any bytes as a record in Redis. A valid record must be written
 * and read again unchanged.
 */
#include "bridge/base/mem.h"
#include "bridge/job/job.h"

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t n);

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t n)
{
    const struct job_names names = {.source = SLICE_LIT("in"),
                                    .target = SLICE_LIT("out")};
    struct buf once = {0}, twice = {0};
    struct err err;
    struct job *job = job_decode(SLICE_LIT("a/1/2"),
                                 (struct slice){(const char *)bytes, n}, &names, &err);
    if (job == NULL)
        return 0;
    job_encode(job, &names, &once);
    struct job *again = job_decode(job->id, buf_slice(&once), &names, &err);
    must(again != NULL);
    job_encode(again, &names, &twice);
    must(slice_eq(buf_slice(&once), buf_slice(&twice)));
    job_free(job);
    job_free(again);
    buf_free(&once);
    buf_free(&twice);
    return 0;
}
