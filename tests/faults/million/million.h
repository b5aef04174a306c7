/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * million.h - what the programs of the run of a million jobs have in common: the body of
 * a job, the ledger of what was sent, the records of what arrived. Times are wall clock.
 */
#ifndef TESTS_FAULTS_MILLION_H
#define TESTS_FAULTS_MILLION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A body is this and then filler bytes, made of run and seq. hash: of both, itself as 0.
 */
struct head {
    uint32_t magic, run;
    uint64_t seq;
    int64_t due_ms;
    uint64_t hash;
};
enum { BODY_MAX = sizeof(struct head) + 256 };

/* Gives its length. out has room for BODY_MAX. */
size_t body_make(uint32_t run, uint64_t seq, int64_t due_ms, unsigned char *out);
/* false: it is not one that body_make() made. */
bool body_read(const void *body, size_t n, struct head *out);

/* A file of one entry per job, which outlives whoever writes it. */
struct entry {
    int64_t due_ms;   /* 0: nobody has begun to send it */
    int64_t acked_ms; /* when the other side said that it has it; 0: it never did */
};
/* Makes the file where it is not there. Ends the program where that cannot be. */
struct entry *ledger_open(const char *path, uint64_t count);

/* One arrival; a file of records is only ever appended to. */
struct record {
    uint64_t seq;
    int64_t us;       /* since 1970 */
    uint32_t attempt; /* from 1; 0: it said none */
    uint32_t good;    /* its body and the due time in its headers are what was sent */
};
int records_open(const char *path);
void records_add(int fd, const struct record *r, size_t n);
struct record record_of(const void *body, size_t n, int64_t us, const char *due,
                        const char *attempt);

/* Lets rate jobs a second through: how many more may go now. */
uint64_t pace_allows(uint64_t sent, uint64_t rate, int64_t begun_us);

int64_t clock_us(void);
_Noreturn void die(const char *what);
/* When job seq is due: 500 ms and up to spread_ms from now. */
int64_t due_of(uint64_t seq, int64_t now_us, int64_t spread_ms);

/* The programs. Each takes its arguments from argv[2] on. */
int produce_main(int argc, char **argv);
int publish_main(int argc, char **argv);
int post_main(int argc, char **argv);
int receive_main(int argc, char **argv);
int read_main(int argc, char **argv);
int judge_main(int argc, char **argv);

#endif
