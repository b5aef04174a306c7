/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * raw.c - the limit of Redis and one connection: the daemon's own scripts with the
 * arguments of its batchers (bridge/store/store_rows.c), sent by hiredis alone. The
 * report compares the daemon's figures with this limit.
 *
 *   raw MODE [--url unix:///PATH|redis://HOST:PORT] [--jobs 200000] [--batch 200]
 *       [--depth 4] [--payload 100] [--ids record|name|uuid] [--route bench/0]
 *       [--prefix tarry] [--due MS] [--spread MS] [--horizon MS] [--first N] [--pid PID]
 *       [--chunk 50000] [--each] [--far] [--queue] [--cluster]
 *
 * MODE: phases (store all, then claim all, then ack all, each timed), drain (store all,
 * then claim, and ack as the claims return: the limit of a sink), whole (store, claim and
 * ack at the same time), enqueue (only store, to fill a Redis), cancel (store and
 * cancel), digests (print the name of each script by its digest). Each mode runs chunk by
 * chunk.
 *
 * depth: calls in flight. ids: those of a Kafka record, which no producer knows; 16
 * letters, or the 36 of a UUID, which a producer knows. due: from now, may be negative.
 * spread: due times are distributed evenly over this time, in no order. horizon: as
 * redis.horizon. each: one call at a time, and the longest of each kind in Redis' CPU
 * time, which other processes do not affect. far: jobs are due in half an hour; phases
 * moves them out of the second tier, and claims them, at that time. first: number of the
 * first job. queue: the route is a pull queue, SINK:NAME. pid: of Redis, to print its CPU
 * time per job. cluster: as in a Redis Cluster, whose node must have the slot of the
 * route.
 *
 * Batches of enqueues, and of the acks of phases, are prepared before the clock starts.
 * Bodies of claimed jobs are received and parsed as replies. Prints one line of JSON:
 * rates per second, CPU of both ends in us per job. Any unexpected reply ends the
 * program.
 */
#include "bridge/base/loop.h"
#include "bridge/base/mem.h"
#include "bridge/queue.h"
#include "bridge/store/batcher.h"

#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <hiredis/hiredis.h>

enum {
    CHUNK_MAX = 500000, /* jobs whose commands are in memory at once */
    DEPTH_MAX = 1024,
    ID_TEXT_MAX = 80,
    MOVE_ENTRIES = 70,       /* as bridge/store/store_far.c */
    FAR_MS = 30 * 60 * 1000, /* due times of --far */
    FAR_SPREAD_MS = 60 * 1000
};

static struct {
    const char *mode, *url, *ids, *route, *prefix;
    long jobs, batch, depth, payload, due_ms, spread_ms, horizon_ms, first, pid, chunk;
    int queue, cluster, far, each;
} opt = {.url = "unix:///tmp/redis.sock",
         .ids = "record",
         .route = "bench/0",
         .prefix = "tarry",
         .jobs = 200000,
         .batch = 200,
         .depth = 4,
         .chunk = 50000,
         .horizon_ms = 120000,
         .payload = 100};

static redisContext *redis;
static struct store st;
static struct bucket *bucket;
static struct job_names names = {{"bench_in", 8}, {"bench.out", 9}, false};
static struct bucket_rules ways = {.names = &names};
static struct queue_rules rules = {.lease_ms = 60000};
static struct bucket_events no_events;
static struct job *model; /* its id, due time and offset change from job to job */
static char *payload;
static int64_t now_ms;
static long long body_bytes;

static void die(const char *what, const char *why)
{
    fprintf(stderr, "raw: %s: %s\n", what, why);
    exit(1);
}

/* --------------------------------------------------------------------- commands */

struct command {
    char *text;
    size_t n;
};

/* Return the content of st.args as a command. */
static struct command formatted(void)
{
    struct slice whole = resp_end(&st.args);
    return (struct command){mem_strndup(whole.p, whole.n), whole.n};
}

static void begin(enum script script)
{
    st.map = opt.cluster ? (struct map *)&st : NULL; /* compared only with NULL */
    args_begin_bucket(bucket, script);
}

/* Like send_batch() of bridge/store/batcher.c. Frees the changes. */
static struct command batcher_command(enum batcher_kind kind, struct batch *batch)
{
    const struct batcher_row *row = &batcher_rows[kind];
    struct change *c;
    batch->batcher = &bucket->batcher[kind];
    begin(row->script);
    row->head(&st.args, batch);
    TAILQ_FOREACH (c, &batch->list, link)
        row->change(&st.args, batch, c);
    struct command made = formatted();
    while ((c = TAILQ_FIRST(&batch->list))) {
        TAILQ_REMOVE(&batch->list, c, link);
        free(c);
    }
    return made;
}

static void batch_add(struct batch *batch, struct change *c)
{
    must(batch_accepts(batch, c));
    c->seq = bucket->next_seq++;
    TAILQ_INSERT_TAIL(&batch->list, c, link);
    batch->count++;
}

/* Permute 0 to n - 1, spread evenly and in no visible order. */
static int64_t shuffled(int64_t i, int64_t n)
{
    return (int64_t)((unsigned __int128)(uint64_t)i * 0x9E3779B97F4A7C15u % (uint64_t)n);
}

static struct slice id_of(long i, char text[ID_TEXT_MAX])
{
    if (strcmp(opt.ids, "record") == 0)
        snprintf(text, ID_TEXT_MAX, "%s/0/%ld", model->topic.p, i);
    else if (strcmp(opt.ids, "name") == 0)
        snprintf(text, ID_TEXT_MAX, "PQxc%012ld", i);
    else
        snprintf(text, ID_TEXT_MAX, "0a1b2c3d-4e5f-6071-8293-%012ld", i);
    return slice_of(text);
}

static struct change *enqueue_change(long i)
{
    char id[ID_TEXT_MAX];
    struct buf record = {0};
    int64_t due_ms =
        now_ms + opt.due_ms + (opt.spread_ms ? shuffled(i, opt.spread_ms) : 0);
    bool of_record = strcmp(opt.ids, "record") == 0;
    model->id = id_of(i, id);
    model->due_ms = due_ms;
    model->offset = of_record ? i : -1;
    snprintf(payload, 24, "%020ld", i);
    payload[20] = '.';
    job_encode(model, opt.queue ? NULL : &names, &record);
    struct change *c = change_new(sizeof(struct change), model->id, buf_slice(&record),
                                  SLICE_LIT(""), SLICE_LIT(""));
    buf_free(&record);
    c->due_ms = due_ms;
    c->how = of_record ? ENQUEUE_HOW_UNNAMED : 0;
    c->origin = (struct origin){NULL, -1, -1, 0, 0};
    if (of_record)
        c->origin = (struct origin){"bench.delayed/0", i, i > opt.first ? i - 1 : -1,
                                    now_ms, i > opt.first ? now_ms : 0};
    return c;
}

static struct command enqueue_command(long first, long n)
{
    struct batch batch = {.count = 0};
    TAILQ_INIT(&batch.list);
    for (long i = first; i < first + n; i++)
        batch_add(&batch, enqueue_change(i));
    return batcher_command(BATCHER_ENQUEUE, &batch);
}

static struct command claim_command(void)
{
    if (opt.queue) {
        begin(SCRIPT_PULL);
        put_queue(&st.args, bucket);
        resp_add_number(&st.args, rules.lease_ms);
        resp_add_number(&st.args, rules.lease_ms);
        resp_add_number(&st.args, opt.batch);
    } else {
        begin(SCRIPT_CLAIM);
        if (opt.far)
            resp_add_number(&st.args, now_ms + FAR_MS + FAR_SPREAD_MS);
        else
            resp_add(&st.args, SLICE_LIT(""));
        put_kind(&st.args, bucket);
        resp_add_number(&st.args, rules.lease_ms);
        resp_add_number(&st.args, opt.batch);
        resp_add(&st.args, slice_of(bucket->claimant));
        resp_add(&st.args, SLICE_LIT("")); /* no limits */
        resp_add_number(&st.args, 0);
        resp_add(&st.args, SLICE_LIT(""));
        resp_add(&st.args, SLICE_LIT(""));
    }
    return formatted();
}

/* Like move() of bridge/store/store_far.c, at a time when all jobs of --far must move. */
static struct command move_command(void)
{
    begin(SCRIPT_MOVE);
    resp_add_number(&st.args, now_ms + FAR_MS + FAR_SPREAD_MS);
    resp_add_number(&st.args, opt.horizon_ms / 2);
    resp_add_number(&st.args, MOVE_ENTRIES);
    resp_add(&st.args, slice_of(st.wake_channel));
    resp_add(&st.args, slice_of(bucket->wake));
    return formatted();
}

/* ----------------------------------------------------------------------- replies */

/* Require n letters in a reply to changes, all of the wanted kind. */
static void check_codes(const redisReply *r, long n, char wanted)
{
    if (r->type == REDIS_REPLY_ARRAY && r->elements >= 2)
        r = r->element[1];
    char want[2] = {wanted, 0};
    if (r->type != REDIS_REPLY_STRING || (long)r->len != n ||
        strspn(r->str, want) != r->len)
        die("changes were answered", r->str ? r->str : "without letters");
}

/* Where the jobs of a claim begin, the fields per job, and the fields behind them. */
struct shape {
    size_t head, per_job, tail;
};

/* Add an ack for each job of the reply to batch. */
static long read_claim(const redisReply *r, struct batch *batch)
{
    static const struct shape of_claim = {4, 3, 0}, of_pull = {3, 7, 3};
    const struct shape *s = opt.queue ? &of_pull : &of_claim;
    if (r->type != REDIS_REPLY_ARRAY || r->elements < s->head + s->tail)
        die("claim", r->str ? r->str : "its reply is too short");
    size_t n = (r->elements - s->head - s->tail) / s->per_job;
    for (size_t i = 0; i < n; i++) {
        redisReply **at = r->element + s->head + s->per_job * i;
        struct slice none = {NULL, 0};
        struct slice how = opt.queue ? SLICE_LIT("acked") : none;
        struct change *c =
            change_new(sizeof(struct change), (struct slice){at[0]->str, at[0]->len},
                       none, how, none);
        c->lease = opt.queue ? at[3]->integer : r->element[2]->integer;
        body_bytes += (long long)at[1]->len;
        batch_add(batch, c);
    }
    return (long)n;
}

static struct command ack_command(struct batch *batch)
{
    return batcher_command(opt.queue ? BATCHER_FINISH : BATCHER_ACK, batch);
}

/* ------------------------------------------------------------------ the connection */

struct sent {
    int step; /* enum step */
    long jobs;
};
static struct sent ring[DEPTH_MAX * 3];
static unsigned ring_from, ring_n;

static void send_command(struct command c, int step, long jobs)
{
    if (redisAppendFormattedCommand(redis, c.text, c.n) != REDIS_OK)
        die("send", redis->errstr);
    ring[(ring_from + ring_n++) % (DEPTH_MAX * 3)] = (struct sent){step, jobs};
}

static redisReply *receive(struct sent *sent)
{
    void *reply;
    if (redisGetReply(redis, &reply) != REDIS_OK)
        die("receive", redis->errstr);
    if (((redisReply *)reply)->type == REDIS_REPLY_ERROR)
        die("Redis answers", ((redisReply *)reply)->str);
    *sent = ring[ring_from];
    ring_from = (ring_from + 1) % (DEPTH_MAX * 3);
    ring_n--;
    return reply;
}

/* ------------------------------------------------------------------------- clocks */

struct clocks {
    double wall_s, own_s, redis_s;
};

/* The main thread's time, in ns: /proc/PID/stat counts in hundredths of a second. */
static double redis_cpu_s(void)
{
    char path[64];
    unsigned long long ns = 0;
    if (opt.pid == 0)
        return 0;
    snprintf(path, sizeof(path), "/proc/%ld/schedstat", opt.pid);
    FILE *f = fopen(path, "r");
    if (f == NULL || fscanf(f, "%llu", &ns) != 1)
        die(path, "can't be read");
    fclose(f);
    return (double)ns / 1e9;
}

static struct clocks clocks_now(void)
{
    struct timespec own;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &own);
    return (struct clocks){(double)loop_mono_us() / 1e6,
                           (double)own.tv_sec + (double)own.tv_nsec / 1e9, redis_cpu_s()};
}

static void clocks_add(struct clocks *sum, struct clocks from)
{
    struct clocks now = clocks_now();
    sum->wall_s += now.wall_s - from.wall_s;
    sum->own_s += now.own_s - from.own_s;
    sum->redis_s += now.redis_s - from.redis_s;
}

/* The timed steps, named as in the output. */
enum step { ENQUEUE, MOVE, CLAIM, ACK, CANCEL, DRAIN, WHOLE, STEPS };
static const char *const step_names[STEPS] = {"enqueue", "move",  "claim", "ack",
                                              "cancel",  "drain", "whole"};
static struct clocks took[STEPS];
static double longest_s[STEPS]; /* of --each: Redis' CPU time in one call */

static void print_steps(void)
{
    double us = 1e6 / (double)opt.jobs;
    for (int i = 0; i < STEPS; i++) {
        const struct clocks *t = &took[i];
        if (t->wall_s > 0)
            printf("\"%s_per_s\": %.0f, \"%s_redis_us\": %.3f, \"%s_own_us\": %.3f, ",
                   step_names[i], (double)opt.jobs / t->wall_s, step_names[i],
                   t->redis_s * us, step_names[i], t->own_s * us);
        if (opt.each && t->wall_s > 0)
            printf("\"%s_longest_us\": %.0f, ", step_names[i], longest_s[i] * 1e6);
    }
}

/* -------------------------------------------------------------------------- modes */

/* Prepared calls, with the number of jobs in each. */
struct calls {
    struct command command[CHUNK_MAX];
    long jobs[CHUNK_MAX];
    long n;
};
static struct calls enqueues, claims, acks;
static struct batch claimed = {.list = TAILQ_HEAD_INITIALIZER(claimed.list)};

static long least(long a, long b)
{
    return a < b ? a : b;
}

static void forget(struct calls *calls)
{
    while (calls->n > 0)
        free(calls->command[--calls->n].text);
}

static void make_enqueues(long first, long jobs)
{
    forget(&enqueues);
    for (long done = 0; done < jobs; enqueues.n++) {
        long n =
            least(least(opt.batch, batcher_rows[BATCHER_ENQUEUE].jobs_max), jobs - done);
        enqueues.command[enqueues.n] = enqueue_command(first + done, n);
        enqueues.jobs[enqueues.n] = n;
        done += n;
    }
}

static void make_claims(long jobs)
{
    forget(&claims);
    for (long done = 0; done < jobs; done += claims.jobs[claims.n++]) {
        claims.command[claims.n] = claim_command();
        claims.jobs[claims.n] = least(opt.batch, jobs - done);
    }
}

/* Prepare acks for the claimed jobs. */
static void make_acks(void)
{
    forget(&acks);
    while (claimed.count > 0) {
        struct batch batch = {.list = TAILQ_HEAD_INITIALIZER(batch.list)};
        for (; claimed.count > 0 && batch.count < (unsigned)opt.batch; claimed.count--) {
            struct change *c = TAILQ_FIRST(&claimed.list);
            TAILQ_REMOVE(&claimed.list, c, link);
            batch_add(&batch, c);
        }
        acks.jobs[acks.n] = batch.count;
        acks.command[acks.n++] = ack_command(&batch);
    }
}

static void got_enqueue(const redisReply *r, long jobs)
{
    check_codes(r, jobs, 's');
}

static void got_claim(const redisReply *r, long jobs)
{
    if (read_claim(r, &claimed) != jobs)
        die("claim", "fewer jobs are due than were asked for");
}

static void got_ack(const redisReply *r, long jobs)
{
    check_codes(r, jobs, opt.queue ? 'f' : 'a');
}

static void got_cancel(const redisReply *r, long jobs)
{
    check_codes(r, jobs, 'c');
}

static bool redis_sleeps(void)
{
    char path[64], text[256] = "";
    snprintf(path, sizeof(path), "/proc/%ld/stat", opt.pid);
    FILE *f = fopen(path, "r");
    if (f == NULL || fgets(text, sizeof(text), f) == NULL)
        die(path, "can't be read; --each needs --pid");
    fclose(f);
    const char *state = strrchr(text, ')');
    return state && state[1] == ' ' && state[2] == 'S';
}

/* The reply has arrived: the CPU time of Redis since the last call belongs to this call.
 * Redis updates it when it sleeps. */
static void note_longest(enum step step)
{
    static double before_s;
    if (!opt.each)
        return;
    while (!redis_sleeps())
        usleep(20);
    double now_s = redis_cpu_s();
    if (before_s > 0 && now_s - before_s > longest_s[step])
        longest_s[step] = now_s - before_s;
    before_s = now_s;
}

/* Send with depth calls in flight. Passes every reply to got. */
static void send_all(const struct calls *calls, enum step step,
                     void (*got)(const redisReply *r, long jobs))
{
    struct clocks from = clocks_now();
    struct sent sent;
    for (long out = 0, in = 0; in < calls->n; in++) {
        for (; out < calls->n && out - in < opt.depth; out++)
            send_command(calls->command[out], step, calls->jobs[out]);
        redisReply *r = receive(&sent);
        note_longest(step);
        got(r, sent.jobs);
        freeReplyObject(r);
    }
    clocks_add(&took[step], from);
}

/* Move jobs out of the second tier: those that are due before the last of this call. */
static void move_all(long jobs)
{
    struct command move = move_command();
    struct clocks from = clocks_now();
    struct sent sent;
    while (jobs > 0) {
        send_command(move, MOVE, 0);
        redisReply *r = receive(&sent);
        note_longest(MOVE);
        if (r->type != REDIS_REPLY_ARRAY || r->elements < 2 ||
            r->element[1]->integer == 0)
            die("move", "fewer jobs are in the second tier than were stored");
        jobs -= (long)r->element[0]->integer;
        freeReplyObject(r);
    }
    clocks_add(&took[MOVE], from);
    free(move.text);
}

static void phases(long first, long jobs)
{
    make_enqueues(first, jobs);
    make_claims(jobs);
    send_all(&enqueues, ENQUEUE, got_enqueue);
    if (opt.far)
        move_all(jobs);
    send_all(&claims, CLAIM, got_claim);
    make_acks();
    send_all(&acks, ACK, got_ack);
}

/* Handle one reply of a drain: acks for its jobs follow a claim. */
static long take_reply(void)
{
    struct sent sent;
    long acked = 0;
    redisReply *r = receive(&sent);
    if (sent.step == ENQUEUE) {
        got_enqueue(r, sent.jobs);
    } else if (sent.step == ACK) {
        got_ack(r, sent.jobs);
        acked = sent.jobs;
    } else {
        struct batch batch = {.list = TAILQ_HEAD_INITIALIZER(batch.list)};
        long n = read_claim(r, &batch);
        if (n > 0) {
            struct command ack = ack_command(&batch);
            send_command(ack, ACK, n);
            free(ack.text);
        }
    }
    freeReplyObject(r);
    return acked;
}

/* with_enqueues: store the jobs of a claim just before it. */
static void claim_and_ack(long jobs, bool with_enqueues, enum step step)
{
    struct clocks from = clocks_now();
    long stored = 0, wanted = 0, in = 0;
    for (long out = 0, acked = 0; acked < jobs;) {
        for (; out < claims.n && ring_n < (unsigned)opt.depth; out++) {
            wanted += claims.jobs[out];
            for (; with_enqueues && stored < wanted; stored += enqueues.jobs[in++])
                send_command(enqueues.command[in], ENQUEUE, enqueues.jobs[in]);
            send_command(claims.command[out], CLAIM, claims.jobs[out]);
        }
        if (ring_n == 0)
            die("claim", "fewer jobs are due than were stored");
        acked += take_reply();
    }
    clocks_add(&took[step], from);
}

static void drain(long first, long jobs)
{
    make_enqueues(first, jobs);
    make_claims(jobs);
    send_all(&enqueues, ENQUEUE, got_enqueue);
    claim_and_ack(jobs, false, DRAIN);
}

static void whole(long first, long jobs)
{
    make_enqueues(first, jobs);
    make_claims(jobs);
    claim_and_ack(jobs, true, WHOLE);
}

static void enqueue(long first, long jobs)
{
    make_enqueues(first, jobs);
    send_all(&enqueues, ENQUEUE, got_enqueue);
}

static void cancel(long first, long jobs)
{
    const long most = least(opt.batch, batcher_rows[BATCHER_CANCEL].jobs_max);
    char id[ID_TEXT_MAX];
    struct slice none = {NULL, 0};
    make_enqueues(first, jobs);
    send_all(&enqueues, ENQUEUE, got_enqueue);
    forget(&acks);
    for (long done = 0; done < jobs; done += acks.jobs[acks.n++]) {
        struct batch batch = {.list = TAILQ_HEAD_INITIALIZER(batch.list)};
        acks.jobs[acks.n] = least(most, jobs - done);
        for (long i = 0; i < acks.jobs[acks.n]; i++)
            batch_add(&batch, change_new(sizeof(struct change),
                                         id_of(first + done + i, id), none, none, none));
        acks.command[acks.n] = batcher_command(BATCHER_CANCEL, &batch);
    }
    send_all(&acks, CANCEL, got_cancel);
}

static void digests(long first, long jobs)
{
    (void)first, (void)jobs;
    for (int i = 0; i < SCRIPTS; i++)
        printf("\"%s\": \"%s\", ", st.sha[i], script_names[i]);
}

static const struct {
    const char *name;
    void (*run)(long first, long jobs);
} modes[] = {{"phases", phases},   {"drain", drain},   {"whole", whole},
             {"enqueue", enqueue}, {"cancel", cancel}, {"digests", digests}};

/* -------------------------------------------------------------------------- start */

static void set_up_store(void)
{
    st.conf.prefix = opt.prefix;
    st.conf.instance = "raw";
    st.conf.horizon_ms = opt.horizon_ms;
    st.wake_channel = mem_strdup("tarry:wake");
    char *colon = strchr(opt.route, ':');
    if (opt.queue && colon) {
        char *sink = mem_strdup(opt.route);
        sink[colon - opt.route] = 0;
        bucket = bucket_new_queue(&st, sink, colon + 1, &rules, &no_events, NULL);
        free(sink);
    } else if (opt.queue) {
        die("--queue", "then --route names SINK:QUEUE");
    } else {
        bucket = bucket_new(&st, opt.route, &ways, &no_events, NULL);
    }
}

/* A job of a route from Kafka to Kafka; for a queue, a job received over HTTP. */
static void set_up_model(void)
{
    size_t n = (size_t)(opt.payload < 24 ? 24 : opt.payload);
    payload = mem_alloc(n + 1);
    memset(payload, 'x', n);
    model = job_new(0);
    bool of_record = strcmp(opt.ids, "record") == 0;
    model->topic = slice_of(of_record ? "bench.delayed" : "");
    model->target = slice_of(opt.queue ? strchr(opt.route, ':') + 1 : "bench.out");
    model->source = slice_of(opt.queue ? "http" : "bench_in");
    model->partition = of_record ? 0 : -1;
    model->timestamp_ms = of_record ? now_ms : 0;
    model->payload = (struct slice){payload, n};
}

static void connect_to(const char *url)
{
    struct redis_url u;
    struct err err;
    if (redis_url_parse(url, &u, &err) < 0)
        die(url, err.text);
    redis =
        u.unix_path ? redisConnectUnix(u.unix_path) : redisConnect(u.host, atoi(u.port));
    if (redis == NULL || redis->err)
        die(url, redis ? redis->errstr : "out of memory");
    redis_url_free(&u);
}

static void load_scripts(void)
{
    for (int i = 0; i < SCRIPTS; i++) {
        redisReply *r = redisCommand(redis, "SCRIPT LOAD %s", script_texts[i]);
        if (r == NULL || r->type != REDIS_REPLY_STRING || r->len != 40)
            die("SCRIPT LOAD", r && r->str ? r->str : redis->errstr);
        memcpy(st.sha[i], r->str, 41);
        freeReplyObject(r);
    }
}

static void read_options(int argc, char **argv)
{
    static const struct option longs[] = {{"url", 1, NULL, 'u'},
                                          {"jobs", 1, NULL, 'n'},
                                          {"batch", 1, NULL, 'b'},
                                          {"depth", 1, NULL, 'd'},
                                          {"payload", 1, NULL, 'p'},
                                          {"ids", 1, NULL, 'i'},
                                          {"route", 1, NULL, 'r'},
                                          {"prefix", 1, NULL, 'x'},
                                          {"due", 1, NULL, 't'},
                                          {"spread", 1, NULL, 's'},
                                          {"first", 1, NULL, 'f'},
                                          {"pid", 1, NULL, 'P'},
                                          {"horizon", 1, NULL, 'h'},
                                          {"queue", 0, &opt.queue, 1},
                                          {"cluster", 0, &opt.cluster, 1},
                                          {"far", 0, &opt.far, 1},
                                          {"each", 0, &opt.each, 1},
                                          {"chunk", 1, NULL, 'c'},
                                          {0}};
    const struct {
        char letter;
        const char **text;
        long *number;
    } rows[] = {
        {'u', &opt.url, NULL},        {'i', &opt.ids, NULL},     {'r', &opt.route, NULL},
        {'x', &opt.prefix, NULL},     {'n', NULL, &opt.jobs},    {'b', NULL, &opt.batch},
        {'d', NULL, &opt.depth},      {'p', NULL, &opt.payload}, {'t', NULL, &opt.due_ms},
        {'s', NULL, &opt.spread_ms},  {'f', NULL, &opt.first},   {'P', NULL, &opt.pid},
        {'h', NULL, &opt.horizon_ms}, {'c', NULL, &opt.chunk}};
    int letter;
    while ((letter = getopt_long(argc, argv, "", longs, NULL)) != -1) {
        if (letter == '?')
            exit(64);
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
            if (rows[i].letter == letter && rows[i].text)
                *rows[i].text = optarg;
            else if (rows[i].letter == letter)
                *rows[i].number = atol(optarg);
        }
    }
    opt.mode = optind < argc ? argv[optind] : "";
    if (opt.jobs < 1 || opt.batch < 1 || opt.batch > 1000 || opt.depth < 1 ||
        opt.depth > DEPTH_MAX || opt.chunk < 1 || opt.chunk > CHUNK_MAX)
        die("options", "jobs from 1, batch from 1 to 1000, depth from 1 to 1024, "
                       "chunk from 1 to 500000");
    if (opt.each)
        opt.depth = 1;
    if (opt.far) {
        opt.due_ms = FAR_MS;
        opt.spread_ms = FAR_SPREAD_MS;
    }
}

int main(int argc, char **argv)
{
    read_options(argc, argv);
    now_ms = loop_wall_ms();
    set_up_store();
    set_up_model();
    connect_to(opt.url);
    load_scripts();
    for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
        if (strcmp(modes[i].name, opt.mode) == 0) {
            printf("{");
            for (long done = 0; done < opt.jobs; done += opt.chunk)
                modes[i].run(opt.first + done, least(opt.chunk, opt.jobs - done));
            print_steps();
            printf("\"jobs\": %ld, \"body_bytes\": %lld}\n", opt.jobs, body_bytes);
            return 0;
        }
    }
    die("MODE is none of phases, drain, whole, enqueue, cancel, digests", opt.mode);
}
