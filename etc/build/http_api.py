#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""http_api.py - prints docs/reference/http-api.md: the requests of etc/openapi.yaml with their roles."""
from pathlib import Path

import yaml

TOP = Path(__file__).resolve().parents[2]
HEAD = """# HTTP API

`make docs` generates this page from [`etc/openapi.yaml`](../../etc/openapi.yaml), which describes the parameters, bodies
and answers of every request. [`etc/asyncapi.yaml`](../../etc/asyncapi.yaml) describes the messages over Kafka, MQTT and AMQP.
[Use tarry from your language](../how-to/clients.md) has complete programs, and the command that generates a client. The
functions of generated clients have the names of the operations.

The listener `http` serves the requests for producers and consumers, the listener `admin` serves all. The APIs of Later,
lmstfy, delay-queue and camellia-delay-queue are those of [their originals](../how-to/migrate.md).

## Answers

An answer is JSON, except that of `/metrics`. An error has a code in `error` and an explanation in `message`:

```json
{"error":"no-route","message":"no route \\"shop\\" accepts jobs from http; check the routes in routes: { }"}
```

| status | |
|---|---|
| 200, 201, 204 | done; 201: a new job is stored |
| 400 | the request is wrong |
| 401, 403 | no valid token; the token has another role |
| 404, 405 | tarry does not know the job, the route or the path; the path has other methods |
| 408 | the request was too slow |
| 409, 410 | the state does not allow it, such as a cancel of a job in flight; the job was delivered |
| 413, 431 | the body is too large; the head is too large |
| 421 | the `Host` is not in [`hosts`](../how-to/secure.md#host-names) |
| 422 | the configuration has errors |
| 429 | the sink has `names_max` queues |
| 503 | tarry cannot store jobs now; repeat the request after `Retry-After` |

## Roles of tokens

| role | may |
|---|---|
| `produce` | store, show and cancel jobs. It sees the state of a job, but not its key, headers and payload. It can cancel a pending job, but not a job that is in flight or dead (409) |
| `consume` | pull from queues. An acknowledgement (`?token=`) requires it (403) |
| `metrics` | read `/metrics` |
| `admin` | everything |

Requests without a role are open to everybody. If the configuration has no [tokens](../how-to/secure.md#tokens), all
requests are.
"""
SECTIONS = (("Send, show and cancel jobs", "/v1/routes/{route}/jobs"), ("Pull from queues", "/v1/queues"),
            ("Dead letters and targets", "/v1/routes"), ("Operate routes", "/v1/admin"), ("Health and metrics", "/"))


def role(operation):
    roles = sorted({kind["token"][0] for kind in operation["security"] if "token" in kind}, reverse=True)
    return " or ".join(f"`{name}`" for name in roles)


def main():
    rows = [(path, f"| `{method.upper()} {path}` | {role(operation)} | {operation['operationId']} | {operation['summary'].rstrip('.')} |")
            for path, row in yaml.safe_load((TOP / "etc/openapi.yaml").read_text())["paths"].items()
            for method, operation in row.items() if method != "parameters"]
    print(HEAD)
    for title, start in SECTIONS:
        found = [row for row in rows if row[0].startswith(start)]
        rows = [row for row in rows if row not in found]
        print(f"## {title}\n\n| request | role | operation | |\n|---|---|---|---|")
        print("\n".join(text for _, text in found))
        if start == "/":
            print("| `GET /`, `GET /console`, `GET /console/{file}` | | | The console, for a browser |")
        else:
            print()


if __name__ == "__main__":
    main()
