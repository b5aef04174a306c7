/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * kafka_mock.c - librdkafka's mock cluster as a server, for machines without a real
 * Kafka, and for faults that a real Kafka does not produce on demand.
 *
 * kafka_mock [BROKERS] prints the addresses to connect to. Then it executes lines of
 * stdin until stdin closes, and answers each with "ok" or "bad":
 *   topic NAME PARTITIONS        creates a topic
 *   down [BROKER]                stops a broker (default: 1)
 *   up [BROKER]                  starts it again
 *   leader NAME PARTITION BROKER changes the leader of the partition
 *   fail API COUNT ERROR         answers the next COUNT requests of that number with
 *   ERROR
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <librdkafka/rdkafka.h>
#include <librdkafka/rdkafka_mock.h>

static bool obey(rd_kafka_mock_cluster_t *cluster, const char *line)
{
    char name[256];
    int a, b;
    int32_t broker = 1;

    if (sscanf(line, "topic %255s %d", name, &a) == 2)
        return rd_kafka_mock_topic_create(cluster, name, a, 1) == 0;
    if (sscanf(line, "leader %255s %d %d", name, &a, &b) == 3)
        return rd_kafka_mock_partition_set_leader(cluster, name, a, b) == 0;
    if (sscanf(line, "fail %d %d %d", &a, &broker, &b) == 3) {
        while (broker-- > 0)
            rd_kafka_mock_push_request_errors(cluster, (int16_t)a, 1, b);
        return true;
    }
    if (strncmp(line, "down", 4) == 0) {
        sscanf(line, "down %" SCNd32, &broker);
        return rd_kafka_mock_broker_set_down(cluster, broker) == 0;
    }
    if (strncmp(line, "up", 2) == 0) {
        sscanf(line, "up %" SCNd32, &broker);
        return rd_kafka_mock_broker_set_up(cluster, broker) == 0;
    }
    return false;
}

int main(int argc, char **argv)
{
    char why[256], line[512];
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    rd_kafka_t *rk = rd_kafka_new(RD_KAFKA_PRODUCER, conf, why, sizeof(why));

    if (rk == NULL) {
        fprintf(stderr, "kafka_mock: %s\n", why);
        return EXIT_FAILURE;
    }
    rd_kafka_mock_cluster_t *cluster =
        rd_kafka_mock_cluster_new(rk, argc > 1 ? atoi(argv[1]) : 1);
    puts(rd_kafka_mock_cluster_bootstraps(cluster));
    fflush(stdout);
    while (fgets(line, sizeof(line), stdin) != NULL) {
        puts(obey(cluster, line) ? "ok" : "bad");
        fflush(stdout);
    }
    rd_kafka_mock_cluster_destroy(cluster);
    rd_kafka_destroy(rk);
    return EXIT_SUCCESS;
}
