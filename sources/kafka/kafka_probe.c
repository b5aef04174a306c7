/* SPDX-License-Identifier: BSD-2-Clause */
#include "sources/kafka/kafka_probe.h"
#include "bridge/plugin.h"
#include "sources/kafka/kafka_conf.h"
#include "sources/kafka/kafka_token.h"

#include <stdio.h>

enum { WHY_BYTES = KAFKA_PROBE_WHY };

/* The last error is more to the point than that time is up. */
static void on_error(rd_kafka_t *rk, int code, const char *reason, void *opaque)
{
    char *why = opaque;
    (void)rk;
    if (code != RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN)
        snprintf(why, WHY_BYTES, "%s", reason);
}

static void on_log(const rd_kafka_t *rk, int level, const char *part, const char *text)
{
    (void)rk;
    (void)level;
    (void)part;
    (void)text; /* errors come by on_error */
}

rd_kafka_t *kafka_probe_open(const struct kafka_link *link, char *why, struct err *err)
{
    static const struct kafka_setting none[] = {{0}};
    char text[WHY_BYTES];
    rd_kafka_conf_t *conf = kafka_conf_new(link, none, err);
    if (conf == NULL)
        return NULL;
    rd_kafka_conf_set_opaque(conf, why);
    rd_kafka_conf_set_error_cb(conf, on_error);
    rd_kafka_conf_set_log_cb(conf, on_log);
    rd_kafka_t *rk = rd_kafka_new(RD_KAFKA_PRODUCER, conf, text, sizeof(text));
    if (rk == NULL) {
        rd_kafka_conf_destroy(conf); /* rd_kafka_new() owns conf only when it succeeds */
        err_set(err, "%s", text);
    } else if (kafka_token_log_in(rk, link, err) < 0) {
        rd_kafka_destroy(rk);
        rk = NULL;
    }
    return rk;
}

/* Of a topic; NULL: the brokers did not name it. */
static const rd_kafka_metadata_topic_t *find_topic(const struct rd_kafka_metadata *all,
                                                   const char *name)
{
    for (int i = 0; i < all->topic_cnt; i++)
        if (strcmp(all->topics[i].topic, name) == 0)
            return &all->topics[i];
    return NULL;
}

static int tell_topic(const struct rd_kafka_metadata *all, const char *name,
                      struct buf *said, struct err *err)
{
    const rd_kafka_metadata_topic_t *topic = find_topic(all, name);
    if (topic == NULL)
        return err_set(err,
                       "there is no topic %s, or we may not see it: make it, or allow "
                       "that (unless the brokers make topics by themselves)",
                       name);
    if (topic->err)
        return err_set(err, "topic %s: %s", name, rd_kafka_err2str(topic->err));
    buf_addf(said, ", %s has %d partitions", name, topic->partition_cnt);
    return 0;
}

/* All topics are asked for: asked for one by its name, brokers may make it. */
int kafka_probe_topics(rd_kafka_t *rk, const struct kafka_link *link, const char *why,
                       const struct rd_kafka_metadata **all, struct err *err)
{
    rd_kafka_resp_err_t e = rd_kafka_metadata(rk, 1, NULL, all, PROBE_WAIT_MS);
    rd_kafka_poll(rk, 0); /* on_error */
    if (e == RD_KAFKA_RESP_ERR_NO_ERROR)
        return 0;
    return err_set(err, "no broker of \"%s\" answers: %s", link->brokers,
                   *why ? why : rd_kafka_err2str(e));
}

int kafka_probe(const struct kafka_link *link, char *const *topics, size_t n,
                struct buf *said, struct err *err)
{
    char why[WHY_BYTES] = "";
    rd_kafka_t *rk = kafka_probe_open(link, why, err);
    if (rk == NULL)
        return -1;
    const struct rd_kafka_metadata *all = NULL;
    int bad = kafka_probe_topics(rk, link, why, &all, err);
    if (bad == 0)
        buf_addf(said, "%d brokers", all->broker_cnt);
    for (size_t i = 0; bad == 0 && i < n; i++)
        if (topics[i][0] != '^')
            bad = tell_topic(all, topics[i], said, err);
    if (all)
        rd_kafka_metadata_destroy(all);
    rd_kafka_destroy(rk);
    return bad;
}
