/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fuzz_job.c - libFuzzer: any bytes as a record of Redis. What is read must be written
 * and read again, byte for byte the same.
 */
#include "bridge/job.h"
#include "bridge/mem.h"

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t n);

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t n)
{
    struct buf once = {0}, twice = {0};
    struct err err;
    struct job *job =
        job_decode(SLICE_LIT("id"), (struct slice){(const char *)bytes, n}, &err);
    if (job == NULL)
        return 0;
    job_encode(job, &once);
    struct job *again = job_decode(job->id, buf_slice(&once), &err);
    must(again != NULL);
    job_encode(again, &twice);
    must(slice_eq(buf_slice(&once), buf_slice(&twice)));
    job_free(job);
    job_free(again);
    buf_free(&once);
    buf_free(&twice);
    return 0;
}
