#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# Sends a delayed record to Kafka: kafka.sh BROKERS TOPIC ID DELAY TEXT. Requires: apt-get install kcat
set -eu
printf %s "$5" | kcat -P -b "$1" -t "$2" -H "delay-id=$3" -H "deliver-after=$4"
