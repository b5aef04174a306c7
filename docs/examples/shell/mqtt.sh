#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# Publishes a delayed message over MQTT 5: mqtt.sh HOST PORT TOPIC ID DELAY TEXT. Requires: apt-get install mosquitto-clients
set -eu
mosquitto_pub -V 5 -q 1 -h "$1" -p "$2" -t "$3" -m "$6" \
    -D publish user-property delay-id "$4" -D publish user-property deliver-after "$5"
