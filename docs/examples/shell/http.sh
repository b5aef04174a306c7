#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# Publishes, cancels and pulls jobs with curl. pull also requires jq, verify requires openssl.
#
#   http.sh publish ROUTE ID DELAY TEXT              stores a job
#   http.sh cancel ROUTE ID                          cancels it
#   http.sh pull QUEUE                               waits for a job, prints it, acknowledges it
#   http.sh verify SECRET ID TIMESTAMP SIGNATURES    verifies a callback: its headers webhook-..., its body on stdin
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
    [ -n "$job" ] || exit 0      # no job became due in time
    echo "$job" | jq -r .payload # process the job here, then acknowledge it
    path=$(echo "$job" | jq -r '"\(.id | @uri)?token=\(.token)"')
    curl -sS --fail-with-body -X DELETE "$tarry/v1/queues/$2/jobs/$path" >/dev/null
    ;;
verify)
    # For trials: other users of this machine can see the secret while openssl runs.
    case $4 in *[!0-9]* | '') echo 'the timestamp is wrong'; exit 1 ;; esac
    age=$(($(date +%s) - $4))
    [ "${age#-}" -le 300 ] || { echo 'the callback is too old'; exit 1; } # an attacker may replay it
    key=$(printf %s "${2#whsec_}" | base64 -d | od -An -v -tx1 | tr -d ' \n')
    expected=$({ printf '%s.%s.' "$3" "$4"; cat; } | openssl dgst -sha256 -mac HMAC -macopt "hexkey:$key" -binary | base64)
    case " $5 " in
    *" v1,$expected "*) echo 'the signature is valid' ;;
    *) echo 'the signature is wrong'; exit 1 ;;
    esac
    ;;
esac
