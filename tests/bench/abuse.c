/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * abuse.c - well-behaved clients of the jobs API, with and without malformed requests
 * from other clients.
 *
 *   abuse --port P --corpus DIR [--seconds 5] [--rounds 3] [--bad 1000] [--good 500]
 *
 * A round lasts --seconds without bad requests and --seconds with --bad of them a second.
 * A bad request is a damaged file of the corpus of tests/fuzz_http.c, on a connection of
 * its own. The good clients publish --good jobs a second, at fixed times, on persistent
 * connections. The latency of a request counts from the time at which it was to be sent.
 * Prints one line of JSON with the 99th percentile of each round.
 */
#include "tests/bench/clock.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    GOOD_CLIENTS = 16,
    BAD_CLIENTS = 64,
    FILES_MAX = 1000,
    FILE_MAX = 8192,
    PATIENCE_US = 20000, /* of a bad client, which is answered at once or never */
    ROUNDS_MAX = 20,
    TIMES_MAX = 1000000
};

static struct {
    int port, rounds, bad, good;
    double seconds;
    const char *corpus;
} o = {.rounds = 3, .bad = 1000, .good = 500, .seconds = 5};

static struct {
    char bytes[FILE_MAX];
    size_t n;
} files[FILES_MAX];
static size_t files_n;

static atomic_bool stop, abusing;
static atomic_llong sent, refused, taken, unanswered, failed;
static int32_t times_us[TIMES_MAX];
static atomic_int times_n;

static int dial(bool patient)
{
    const struct timeval patience = {.tv_usec = PATIENCE_US};
    const int on = 1;
    struct sockaddr_in addr = {.sin_family = AF_INET,
                               .sin_port = htons((uint16_t)o.port),
                               .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    if (!patient)
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    if (connect(fd, (struct sockaddr *)&addr, sizeof(addr)) == 0)
        return fd;
    close(fd);
    return -1;
}

/* Wait until request number n is due. The clients share per_s requests a second and send
 * in turns. */
static void wait_for_turn(int64_t started_us, int64_t n, int per_s)
{
    int64_t at_us = started_us + n * 1000000 / per_s, now = now_us();
    if (at_us > now)
        usleep((useconds_t)(at_us - now));
}

/* ------------------------------------------------------------------------- good */

static bool publish(int fd, int64_t n)
{
    char text[512], answer[2048];
    int len = snprintf(text, sizeof(text),
                       "POST /v1/routes/bench/jobs HTTP/1.1\r\nHost: x\r\n"
                       "deliver-after: 1h\r\ndelay-id: good-%lld\r\n"
                       "Content-Length: 5\r\n\r\nhello",
                       (long long)n);
    if (send(fd, text, (size_t)len, MSG_NOSIGNAL) != len)
        return false;
    ssize_t got = recv(fd, answer, sizeof(answer), 0); /* arrives in one piece */
    return got > 12 && memcmp(answer, "HTTP/1.1 201", 12) == 0;
}

static void *good_client(void *arg)
{
    int64_t started_us = now_us(), n = (intptr_t)arg;
    static atomic_llong ids;
    int fd = dial(true);
    for (; !stop; n += GOOD_CLIENTS) {
        wait_for_turn(started_us, n, o.good);
        if (!publish(fd, atomic_fetch_add(&ids, 1) + getpid() * 1000000000LL)) {
            failed++;
            close(fd);
            fd = dial(true);
        }
        int i = atomic_fetch_add(&times_n, 1);
        if (i < TIMES_MAX)
            times_us[i] = (int32_t)(now_us() - started_us - n * 1000000 / o.good);
    }
    close(fd);
    return NULL;
}

/* -------------------------------------------------------------------------- bad */

/* The first two bytes of a file only control the fuzzer. */
static size_t damaged(char *text, unsigned *seed)
{
    static const char *const wrong[] = {"\n", "\r",    "\0\0", " ",
                                        ":",  "\r\n ", "%",    "\xff"};
    size_t which = (size_t)rand_r(seed) % files_n, n = files[which].n;
    memcpy(text, files[which].bytes, n);
    for (int i = rand_r(seed) % 3 + 1; i > 0; i--) {
        const char *with = wrong[(size_t)rand_r(seed) % (sizeof(wrong) / sizeof(*wrong))];
        memcpy(text + (size_t)rand_r(seed) % (n - 4), with, with[0] ? strlen(with) : 1);
    }
    return rand_r(seed) % 8 ? n : n / 2; /* some requests end in the middle */
}

static void *bad_client(void *arg)
{
    int64_t started_us = now_us();
    unsigned seed = (unsigned)(intptr_t)arg + 1;
    char text[FILE_MAX], answer[1024];
    for (int64_t n = (intptr_t)arg; !stop; n += BAD_CLIENTS) {
        wait_for_turn(started_us, n, o.bad);
        if (!abusing)
            continue;
        int fd = dial(false);
        size_t len = damaged(text, &seed);
        if (fd < 0 || send(fd, text, len, MSG_NOSIGNAL) < 0)
            failed++;
        ssize_t got = recv(fd, answer, sizeof(answer), 0);
        sent++;
        *(got < 10 ? &unanswered : answer[9] == '2' ? &taken : &refused) += 1;
        close(fd);
    }
    return NULL;
}

static void read_corpus(void)
{
    DIR *dir = opendir(o.corpus);
    struct dirent *entry;
    while (dir && (entry = readdir(dir)) && files_n < FILES_MAX) {
        char path[1024];
        snprintf(path, sizeof(path), "%s/%s", o.corpus, entry->d_name);
        FILE *f = fopen(path, "rb");
        if (f == NULL)
            continue;
        char *to = files[files_n].bytes;
        if (entry->d_name[0] != '.' && fread(to, 1, 2, f) == 2)
            files[files_n].n = fread(to, 1, FILE_MAX, f);
        files_n += files[files_n].n > 16;
        fclose(f);
    }
    if (dir)
        closedir(dir);
    if (files_n == 0) {
        fprintf(stderr, "abuse: no requests in %s\n", o.corpus);
        exit(1);
    }
}

/* ----------------------------------------------------------------------- rounds */

static int by_size(const void *a, const void *b)
{
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

static double p99_ms(bool with_abuse)
{
    abusing = with_abuse;
    usleep(300000); /* until the requests before have ended */
    times_n = 0;
    usleep((useconds_t)(o.seconds * 1e6));
    int n = times_n < TIMES_MAX ? times_n : TIMES_MAX;
    static int32_t sorted[TIMES_MAX];
    memcpy(sorted, times_us, (size_t)n * sizeof(*sorted));
    qsort(sorted, (size_t)n, sizeof(*sorted), by_size);
    return n ? sorted[(size_t)(0.99 * (n - 1))] / 1000.0 : 0;
}

static void read_words(int argc, char **argv)
{
    for (int i = 1; i + 1 < argc; i += 2) {
        const char *w = argv[i], *v = argv[i + 1];
        if (strcmp(w, "--corpus") == 0)
            o.corpus = v;
        else if (strcmp(w, "--seconds") == 0)
            o.seconds = atof(v);
        else
            *(strcmp(w, "--port") == 0     ? &o.port
              : strcmp(w, "--rounds") == 0 ? &o.rounds
              : strcmp(w, "--bad") == 0    ? &o.bad
                                           : &o.good) = atoi(v);
    }
    if (o.port == 0 || o.corpus == NULL || o.rounds > ROUNDS_MAX) {
        fprintf(stderr, "usage: abuse --port P --corpus DIR [--seconds 5] [--rounds 3] "
                        "[--bad 1000] [--good 500]\n");
        exit(2);
    }
}

int main(int argc, char **argv)
{
    pthread_t threads[GOOD_CLIENTS + BAD_CLIENTS];
    double quiet[ROUNDS_MAX], abused[ROUNDS_MAX];
    read_words(argc, argv);
    read_corpus();
    for (intptr_t i = 0; i < GOOD_CLIENTS + BAD_CLIENTS; i++)
        pthread_create(&threads[i], NULL, i < GOOD_CLIENTS ? good_client : bad_client,
                       (void *)(i < GOOD_CLIENTS ? i : i - GOOD_CLIENTS));
    for (int i = 0; i < o.rounds; i++) {
        quiet[i] = p99_ms(false);
        abused[i] = p99_ms(true);
    }
    stop = true;
    for (int i = 0; i < GOOD_CLIENTS + BAD_CLIENTS; i++)
        pthread_join(threads[i], NULL);
    printf("{\"quiet_p99_ms\":[");
    for (int i = 0; i < o.rounds; i++)
        printf("%s%.2f", i ? "," : "", quiet[i]);
    printf("],\"abused_p99_ms\":[");
    for (int i = 0; i < o.rounds; i++)
        printf("%s%.2f", i ? "," : "", abused[i]);
    printf("],\"bad_per_s\":%.0f,\"refused\":%lld,\"taken\":%lld,\"unanswered\":%lld,"
           "\"failed\":%lld}\n",
           (double)sent / (o.rounds * (o.seconds + 0.3)), (long long)refused,
           (long long)taken, (long long)unanswered, (long long)failed);
    return 0;
}
