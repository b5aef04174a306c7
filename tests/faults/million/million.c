/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/faults/million/million.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { MAGIC = 0x79727274 };

int64_t clock_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

void die(const char *what)
{
    fprintf(stderr, "million: %s: %s\n", what, strerror(errno));
    exit(1);
}

/* splitmix64 */
static uint64_t mix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    return x ^ (x >> 31);
}

static uint64_t hash_of(const unsigned char *p, size_t n)
{
    uint64_t h = 0xcbf29ce484222325;
    for (size_t i = 0; i < n; i++)
        h = (h ^ p[i]) * 0x100000001b3;
    return mix(h);
}

size_t body_make(uint32_t run, uint64_t seq, int64_t due_ms, unsigned char *out)
{
    struct head head = {MAGIC, run, seq, due_ms, 0};
    uint64_t filler = mix(run ^ mix(seq));
    size_t n = sizeof(head) + filler % (BODY_MAX - sizeof(head) + 1);
    for (size_t i = sizeof(head); i < n; i++) {
        if (i % 8 == 0)
            filler = mix(filler);
        out[i] = (unsigned char)(filler >> (i % 8 * 8));
    }
    memcpy(out, &head, sizeof(head));
    head.hash = hash_of(out, n);
    memcpy(out, &head, sizeof(head));
    return n;
}

bool body_read(const void *body, size_t n, struct head *out)
{
    unsigned char copy[BODY_MAX];
    if (n < sizeof(*out) || n > sizeof(copy))
        return false;
    memcpy(out, body, sizeof(*out));
    memcpy(copy, body, n);
    memset(copy + offsetof(struct head, hash), 0, sizeof(out->hash));
    return out->magic == MAGIC && out->hash == hash_of(copy, n);
}

struct entry *ledger_open(const char *path, uint64_t count)
{
    size_t bytes = count * sizeof(struct entry);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (fd < 0 || ftruncate(fd, (off_t)bytes) < 0)
        die(path);
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED)
        die(path);
    close(fd);
    return at;
}

int records_open(const char *path)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (fd < 0)
        die(path);
    return fd;
}

void records_add(int fd, const struct record *r, size_t n)
{
    if (n > 0 && write(fd, r, n * sizeof(*r)) != (ssize_t)(n * sizeof(*r)))
        die("records");
}

struct record record_of(const void *body, size_t n, int64_t us, const char *due,
                        const char *attempt)
{
    struct head head = {0};
    bool good = body_read(body, n, &head);
    return (struct record){
        .seq = good ? head.seq : UINT64_MAX,
        .us = us,
        .attempt = attempt ? (uint32_t)strtoul(attempt, NULL, 10) : 0,
        .good = good && due && strtoll(due, NULL, 10) == head.due_ms,
    };
}

uint64_t pace_allows(uint64_t sent, uint64_t rate, int64_t started_us)
{
    uint64_t by_now = (uint64_t)(clock_us() - started_us) * rate / 1000000;
    return by_now > sent ? by_now - sent : 0;
}

int64_t due_of(uint64_t seq, int64_t now_us, int64_t spread_ms)
{
    return now_us / 1000 + 500 + (int64_t)(mix(~seq) % (uint64_t)(spread_ms + 1));
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name, *arguments;
        int args;
        int (*run)(int argc, char **argv);
    } rows[] = {
        {"produce", "BROKERS TOPIC LEDGER COUNT RATE SPREAD_MS RUN", 7, produce_main},
        {"publish", "PORT TOPIC LEDGER COUNT RATE SPREAD_MS RUN", 7, publish_main},
        {"post", "PORT PATH LEDGER COUNT DUE_MS RUN", 6, post_main},
        {"receive", "PORT RECORDS", 2, receive_main},
        {"read", "BROKERS TOPIC PARTITIONS RECORDS", 4, read_main},
        {"judge", "LEDGER COUNT RECORDS", 3, judge_main},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (argc == rows[i].args + 2 && strcmp(argv[1], rows[i].name) == 0)
            return rows[i].run(argc, argv);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        fprintf(stderr, "million %s %s\n", rows[i].name, rows[i].arguments);
    return 64;
}
