/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * kafka_mock.c - librdkafka's mock cluster as a server of its own, for machines that
 * cannot get a real Kafka.
 *
 * Prints the address to connect to, then obeys lines on stdin until that is closed:
 *   topic NAME PARTITIONS   creates a topic
 *   down, up                the one broker goes away, comes back
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <librdkafka/rdkafka.h>
#include <librdkafka/rdkafka_mock.h>

static void obey(rd_kafka_mock_cluster_t *cluster, const char *line)
{
    char name[256];
    int partitions;

    if (sscanf(line, "topic %255s %d", name, &partitions) == 2)
        rd_kafka_mock_topic_create(cluster, name, partitions, 1);
    else if (strncmp(line, "down", 4) == 0)
        rd_kafka_mock_broker_set_down(cluster, 1);
    else if (strncmp(line, "up", 2) == 0)
        rd_kafka_mock_broker_set_up(cluster, 1);
    puts("ok");
    fflush(stdout);
}

int main(void)
{
    char why[256], line[512];
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    rd_kafka_t *rk = rd_kafka_new(RD_KAFKA_PRODUCER, conf, why, sizeof(why));

    if (rk == NULL) {
        fprintf(stderr, "kafka_mock: %s\n", why);
        return EXIT_FAILURE;
    }
    rd_kafka_mock_cluster_t *cluster = rd_kafka_mock_cluster_new(rk, 1);
    puts(rd_kafka_mock_cluster_bootstraps(cluster));
    fflush(stdout);
    while (fgets(line, sizeof(line), stdin) != NULL)
        obey(cluster, line);
    rd_kafka_mock_cluster_destroy(cluster);
    rd_kafka_destroy(rk);
    return EXIT_SUCCESS;
}
