#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# Publishes, cancels and pulls jobs with curl; pull also requires jq.
#
#   http.sh publish ROUTE ID DELAY TEXT    stores a job
#   http.sh cancel ROUTE ID                cancels it
#   http.sh pull QUEUE                     waits for a job, prints it, acknowledges it
set -eu
tarry=${TARRY_HTTP:-http://127.0.0.1:7700}

case $1 in
publish)
    curl -sS --fail-with-body "$tarry/v1/routes/$2/jobs" -H "Delay-Id: $3" -H "Deliver-After: $4" \
        -H 'Content-Type: text/plain' --data-binary "$5"
    ;;
cancel)
    curl -sS --fail-with-body -X DELETE "$tarry/v1/routes/$2/jobs/$3"
    ;;
pull)
    job=$(curl -sS --fail-with-body -X POST "$tarry/v1/queues/$2/pull?wait=30s" | jq '.jobs[0]')
    echo "$job" | jq -r .payload # process the job here, then acknowledge it
    path=$(echo "$job" | jq -r '"\(.id | @uri)?token=\(.token)"')
    curl -sS --fail-with-body -X DELETE "$tarry/v1/queues/$2/jobs/$path" >/dev/null
    ;;
esac
