/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * million.h - shared by the programs of the run with a million jobs: the body of a job,
 * the ledger of sent jobs, the records of arrivals. Times are wall clock.
 */
#ifndef TESTS_FAULTS_MILLION_H
#define TESTS_FAULTS_MILLION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A body is this head, then filler bytes made from run and seq. hash covers both, with
 * hash itself as 0. */
struct head {
    uint32_t magic, run;
    uint64_t seq;
    int64_t due_ms;
    uint64_t hash;
};
enum { BODY_MAX = sizeof(struct head) + 256 };

/* Returns the length. out must have room for BODY_MAX bytes. */
size_t body_make(uint32_t run, uint64_t seq, int64_t due_ms, unsigned char *out);
/* Returns false if body_make() did not make this body. */
bool body_read(const void *body, size_t n, struct head *out);

/* A file with one entry per job. It outlives the process that writes it. */
struct entry {
    int64_t due_ms;   /* 0: not sent yet */
    int64_t acked_ms; /* when the receiver acknowledged it; 0: never */
};
/* Opens the file, or creates it. Ends the program on failure. */
struct entry *ledger_open(const char *path, uint64_t count);

/* One arrival. A file of records only grows. */
struct record {
    uint64_t seq;
    int64_t us;       /* since 1970 */
    uint32_t attempt; /* from 1; 0: the arrival contained none */
    uint32_t good;    /* body and due time are those that were sent */
};
int records_open(const char *path);
void records_add(int fd, const struct record *r, size_t n);
struct record record_of(const void *body, size_t n, int64_t us, const char *due,
                        const char *attempt);

/* Returns how many more jobs may be sent now, at rate jobs a second. */
uint64_t pace_allows(uint64_t sent, uint64_t rate, int64_t started_us);

int64_t clock_us(void);
_Noreturn void die(const char *what);
/* Returns when job seq is due: 500 ms and up to spread_ms from now. */
int64_t due_of(uint64_t seq, int64_t now_us, int64_t spread_ms);

/* The programs. Each one reads its arguments from argv[2] on. */
int produce_main(int argc, char **argv);
int publish_main(int argc, char **argv);
int post_main(int argc, char **argv);
int receive_main(int argc, char **argv);
int read_main(int argc, char **argv);
int judge_main(int argc, char **argv);

#endif
