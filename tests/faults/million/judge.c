/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * judge.c - prints the verdict as JSON: which acknowledged jobs never arrived, and which
 * arrivals were duplicates, early, changed, or never sent.
 */
#include "tests/faults/million/million.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { NAMED = 10, LATE_MS = 600000 }; /* how many lost jobs are named; the last bin */

struct verdict {
    uint64_t sent, acked, lost, arrived, twice, early, corrupt, unknown, attempts_max;
    uint64_t digest; /* of the set of arrivals, independent of their order */
    uint32_t late[LATE_MS + 1];
};

static const struct record *map_records(const char *path, size_t *count)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0)
        die(path);
    *count = (size_t)st.st_size / sizeof(struct record);
    if (*count == 0)
        return NULL;
    void *at = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (at == MAP_FAILED)
        die(path);
    close(fd);
    return at;
}

static void judge_one(struct verdict *v, const struct entry *ledger, uint64_t count,
                      const struct record *r, unsigned char *seen)
{
    if (r->seq >= count || ledger[r->seq].due_ms == 0) {
        v->unknown += r->seq != UINT64_MAX;
        v->corrupt += r->seq == UINT64_MAX; /* its number cannot be read */
        return;
    }
    int64_t late_us = r->us - ledger[r->seq].due_ms * 1000;
    v->corrupt += !r->good;
    v->early += late_us < 0;
    if (r->attempt > v->attempts_max)
        v->attempts_max = r->attempt;
    if (seen[r->seq]++) {
        seen[r->seq] -= seen[r->seq] == 255;
        v->twice++;
        return;
    }
    v->arrived++;
    v->digest += (r->seq + 1) * 0x9e3779b97f4a7c15;
    int64_t late_ms = late_us < 0 ? 0 : late_us / 1000;
    v->late[late_ms < LATE_MS ? late_ms : LATE_MS]++;
}

static void count_lost(struct verdict *v, const struct entry *ledger, uint64_t count,
                       const unsigned char *seen)
{
    for (uint64_t seq = 0; seq < count; seq++) {
        v->sent += ledger[seq].due_ms != 0;
        v->acked += ledger[seq].acked_ms != 0;
        if (ledger[seq].acked_ms == 0 || seen[seq])
            continue;
        if (v->lost++ < NAMED)
            fprintf(stderr, "lost: job %llu, due %lld, acknowledged %lld\n",
                    (unsigned long long)seq, (long long)ledger[seq].due_ms,
                    (long long)ledger[seq].acked_ms);
    }
}

/* Return the lateness in ms that this many of a thousand jobs do not exceed. */
static int quantile(const struct verdict *v, uint64_t thousandth)
{
    uint64_t passed = 0;
    int ms = 0;
    for (; ms < LATE_MS; ms++) {
        passed += v->late[ms];
        if (passed * 1000 >= v->arrived * thousandth)
            break;
    }
    return ms;
}

int judge_main(int argc, char **argv)
{
    (void)argc;
    static struct verdict v;
    uint64_t count = strtoull(argv[3], NULL, 10);
    size_t n;
    const struct entry *ledger = ledger_open(argv[2], count);
    const struct record *records = map_records(argv[4], &n);
    unsigned char *seen = calloc(count + 1, 1);
    if (seen == NULL)
        die("memory");
    for (size_t i = 0; i < n; i++)
        judge_one(&v, ledger, count, &records[i], seen);
    count_lost(&v, ledger, count, seen);
    printf("{\"sent\": %llu, \"acked\": %llu, \"lost\": %llu, \"arrived\": %llu, "
           "\"twice\": %llu, \"early\": %llu, \"corrupt\": %llu, \"unknown\": %llu, "
           "\"attempts_max\": %llu, \"digest\": \"%016llx\", \"late_p50_ms\": %d, "
           "\"late_p99_ms\": %d, \"late_max_ms\": %d}\n",
           (unsigned long long)v.sent, (unsigned long long)v.acked,
           (unsigned long long)v.lost, (unsigned long long)v.arrived,
           (unsigned long long)v.twice, (unsigned long long)v.early,
           (unsigned long long)v.corrupt, (unsigned long long)v.unknown,
           (unsigned long long)v.attempts_max, (unsigned long long)v.digest,
           quantile(&v, 500), quantile(&v, 990), quantile(&v, 1000));
    return v.lost || v.early || v.corrupt || v.unknown;
}
