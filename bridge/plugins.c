/* SPDX-License-Identifier: BSD-2-Clause */
/* plugins.c - the only list of the built-in sources and sinks. */
#include "bridge/cli/cli.h"
#include "bridge/conf/conf.h"
#include "bridge/plugin.h"

#include <stdio.h>

extern const struct source_ops source_amqp, source_camellia, source_delayqueue,
    source_http, source_kafka, source_later, source_lmstfy, source_mqtt;
extern const struct sink_ops sink_amqp, sink_http, sink_kafka, sink_mqtt, sink_queue;
extern int mqtt_worker_main(int argc, char **argv);

const struct source_ops *const source_plugins[] = {
    &source_amqp,  &source_camellia, &source_delayqueue, &source_http, &source_kafka,
    &source_later, &source_lmstfy,   &source_mqtt,       NULL};
const struct sink_ops *const sink_plugins[] = {&sink_amqp, &sink_http,  &sink_kafka,
                                               &sink_mqtt, &sink_queue, NULL};

static const struct {
    const char *name;
    int (*main)(int argc, char **argv);
} workers[] = {{"mqtt", mqtt_worker_main}};

int plugins_worker(int argc, char **argv)
{
    for (size_t i = 0; argc > 2 && i < sizeof(workers) / sizeof(workers[0]); i++)
        if (strcmp(argv[2], workers[i].name) == 0)
            return workers[i].main(argc, argv);
    fprintf(stderr, "tarry: worker is an internal command of the daemon\n");
    return 64;
}
