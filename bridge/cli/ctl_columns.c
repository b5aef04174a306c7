/* SPDX-License-Identifier: BSD-2-Clause */
/* ctl_columns.c - the columns of the tables that ctl_view.c prints. */
#include "bridge/cli/cli.h"

static const struct ctl_column route_columns[] = {
    {"ROUTE", "name", CTL_TEXT},
    {"HEALTH", "health", CTL_STATE},
    {"PENDING", "pending", CTL_COUNT},
    {"IN FLIGHT", "in_flight", CTL_COUNT},
    {"DEAD", "dead", CTL_ALARM},
    {"OVERDUE", "overdue", CTL_ALARM},
    {"NEXT DUE", "next_due_ms", CTL_WHEN},
    {"LATE P50", "lateness.p50_ms", CTL_SPAN},
    {"P99", "lateness.p99_ms", CTL_SPAN},
    {"DELIVERED", "delivered", CTL_COUNT},
    {"TO", "to", CTL_TEXT},
    {0}};
static const struct ctl_column job_columns[] = {
    {"DUE", "due_ms", CTL_WHEN},      {"STATE", "state", CTL_STATE},
    {"TRIES", "attempts", CTL_COUNT}, {"SIZE", "bytes", CTL_BYTES},
    {"ID", "id", CTL_TEXT},           {"KEY", "key", CTL_TEXT},
    {"TARGET", "target", CTL_TEXT},   {0}};
static const struct ctl_column dead_columns[] = {
    {"BURIED", "buried", CTL_TEXT},   {"REASON", "reason", CTL_TEXT},
    {"TRIES", "attempts", CTL_COUNT}, {"ID", "id", CTL_TEXT},
    {"ERROR", "error", CTL_TEXT},     {0}};
static const struct ctl_column target_columns[] = {
    {"TARGET", "target", CTL_TEXT},        {"STATE", "state", CTL_STATE},
    {"IN FLIGHT", "in_flight", CTL_COUNT}, {"DELIVERED", "delivered", CTL_COUNT},
    {"FAILED", "failed", CTL_ALARM},       {"WAIT", "wait_ms", CTL_SPAN},
    {"STOPPED", "stopped_ms", CTL_WHEN},   {0}};
static const struct ctl_column rewind_columns[] = {{"SOURCE", "source", CTL_TEXT},
                                                   {"TOPIC", "topic", CTL_TEXT},
                                                   {"PARTITION", "partition", CTL_TEXT},
                                                   {"FROM", "from", CTL_TEXT},
                                                   {"END", "end", CTL_TEXT},
                                                   {"RECORDS", "records", CTL_COUNT},
                                                   {0}};
static const struct ctl_column queue_columns[] = {{"QUEUE", "name", CTL_TEXT},
                                                  {"READY", "ready", CTL_COUNT},
                                                  {"DELAYED", "delayed", CTL_COUNT},
                                                  {"IN FLIGHT", "in_flight", CTL_COUNT},
                                                  {"DEAD", "dead", CTL_ALARM},
                                                  {"CONSUMERS", "consumers", CTL_COUNT},
                                                  {"OLDEST", "oldest_ready_ms", CTL_WHEN},
                                                  {"USED", "used_ms", CTL_WHEN},
                                                  {0}};
static const struct ctl_column group_columns[] = {
    {"COUNT", "count", CTL_COUNT}, {"REASON", "reason", CTL_TEXT},
    {"LAST", "last", CTL_TEXT},    {"EXAMPLE", "example.id", CTL_TEXT},
    {"ERROR", "error", CTL_TEXT},  {0}};
const struct ctl_view ctl_view_routes = {"routes", route_columns, 7, "cause"},
                      ctl_view_jobs = {"jobs", job_columns, 0, NULL},
                      ctl_view_dead = {"items", dead_columns, 0, NULL},
                      ctl_view_targets = {"targets", target_columns, 0, NULL},
                      ctl_view_rewind = {"partitions", rewind_columns, 0, NULL},
                      ctl_view_queues = {"queues", queue_columns, 0, NULL},
                      ctl_view_groups = {"groups", group_columns, 0, NULL};
