# SPDX-License-Identifier: BSD-2-Clause
"""Which role may make which request. The tables in the code decide; docs/reference/http-api.md and
etc/openapi.yaml must name the same roles, and the daemon must enforce them."""
import re
from collections import defaultdict

import pytest
import yaml

from lib.servers import TOP, free_port

ROLES = ("produce", "consume", "metrics", "admin")
# Each row: the role in docs/reference/http-api.md, the roles of tokens, and whether the listener http serves
# it.
OPENERS = {"OPEN": ("everybody", None, True), "PAGE": ("everybody", None, False),
           "PRODUCE": ("produce", {"produce"}, True), "CONSUME": ("consume", {"consume"}, True),
           "EITHER": ("produce or consume", {"produce", "consume"}, True),
           "METRICS": ("metrics", {"metrics"}, False), "ADMIN": ("admin", set(), False)}
ROW = re.compile(r'\{"(GET|POST|PUT|DELETE|\*)",\s+(P )?"(/?[^"]*)",\s*\w+,\s*HTTPD_([A-Z]+),')
LMSTFY_ADMIN = re.compile(r'\{"(GET|POST|PUT|DELETE)",\s+"(/[^"]*)"')
CAMELLIA = "/camellia/delayQueue/"
COMPATIBLE = {  # the sources of the compatible APIs, and the options that each needs besides a listener
    "later": "", "delayqueue": "", "camellia": "", "lmstfy": 'admin_listen = "127.0.0.1:{admin}";'}


def rows_of(*patterns):
    """Returns [(method, path, role)] of the tables in these files."""
    return [(method, (CAMELLIA if macro else "") + path, role)
            for pattern in patterns for file in sorted(TOP.glob(pattern))
            for method, macro, path, role in ROW.findall(file.read_text())]


def native_rows():
    return rows_of("bridge/*/*.c", "sources/http/*.c")


def test_the_rows_are_all_found():
    """Otherwise the other tests would check too few rows."""
    written = [role for folder in ("bridge", "sources") for file in TOP.glob(f"{folder}/**/*.c")
               for role in re.findall(r"\w, HTTPD_(?:%s),\s" % "|".join(OPENERS), file.read_text())]
    found = native_rows() + rows_of(*(f"sources/{name}/*.c" for name in COMPATIBLE))
    assert len(found) == len(written) and len(found) > 60


def test_the_reference_names_the_role_of_each_row():
    documented = defaultdict(set)
    text = (TOP / "docs/reference/http-api.md").read_text()
    for requests, role in re.findall(r"(?m)^\| (`(?:GET|POST|PUT|DELETE) /.*?) \|([a-z` ]*)\|.*\|$", text):
        for method, path in re.findall(r"`([A-Z]+) (/[^`]*)`", requests):
            documented[role.replace("`", "").strip() or "everybody"].add((method, re.sub(r"\{\w+\}", "{}", path)))
    wanted = defaultdict(set)
    for method, path, role in native_rows():
        wanted[OPENERS[role][0]].add((method, path))
    assert documented == wanted


def test_the_api_description_names_the_role_of_each_row():
    described = {}
    for path, operations in yaml.safe_load((TOP / "etc/openapi.yaml").read_text())["paths"].items():
        for method, operation in operations.items():
            if method != "parameters":
                described[method.upper(), re.sub(r"\{\w+\}", "{}", path)] = operation.get("security")
    for method, path, role in native_rows():
        if role == "PAGE":
            continue
        opened_by = OPENERS[role][1]
        roles = [] if opened_by is None else sorted(opened_by) or ["admin"]
        # {}: if the configuration has no tokens
        assert described.pop((method, path)) == [{}] + [
            {"token": [role]} for role in roles], (method, path)
    assert not described


# ------------------------------------------------------------------ with a daemon

def token_of(role):
    return f"token-of-{role}-0123456789"


def bearer(role):
    return {"Authorization": f"Bearer {token_of(role)}"} if role else {}


TOKENS = "tokens: { " + " ".join(
    f'{role}_1: {{ token = "{token_of(role)}"; roles = [ "{role}" ]; }};' for role in ROLES) + " };\n"
PARTS = '''
    sinks:  { hook: { type = "http"; url = "http://127.0.0.1:9/"; }; mails: { type = "queue"; tries = 1; }; };
    routes: { hooks: { from = "http"; to = "hook"; retry = "never"; match = "hooks"; };
              all: { from = "http"; to = "mails"; }; };'''


@pytest.fixture
def d(bench):
    daemon = bench.tarry(bench.redis().url, TOKENS + PARTS).start()
    yield daemon
    daemon.stop()


def wanted_of(row, role, apart):
    """Returns the (status, error) with which the request must be rejected. None: it must not be rejected."""
    _, opened_by, on_http = OPENERS[row]
    if apart and not on_http:
        return 404, "not-here"
    if opened_by is None or role == "admin" or role in opened_by:
        return None
    return (403, "no-role") if role else (401, "no-token")


@pytest.mark.parametrize("apart", [False, True], ids=["admin", "http"])
def test_each_row_is_open_to_its_roles_and_closed_to_others(bench, apart):
    admin = f'admin: {{ listen = "127.0.0.1:{free_port()}"; }};\n' if apart else ""
    d = bench.tarry(bench.redis().url, admin + TOKENS + PARTS).start()
    for method, path, row in native_rows():
        path = path.replace("{*}", "x").replace("{}", "none")
        for role in (None, *ROLES):
            status, _, body = d.ask(method, path, b"x" if method in ("POST", "PUT") else None, bearer(role))
            word = body.get("error") if isinstance(body, dict) else None
            refused = status in (401, 403) or word == "not-here"
            assert ((status, word) if refused else None) == wanted_of(row, role, apart), (method, path, role)
    d.stop()


@pytest.mark.parametrize("api", COMPATIBLE)
def test_a_token_of_ours_opens_no_row_of_the_compatible_apis_but_those_that_name_a_role(bench, api):
    port, admin = free_port(), free_port()
    d = bench.tarry(bench.redis().url, f'''{TOKENS}
        sources: {{ api: {{ type = "{api}"; listen = "127.0.0.1:{port}"; {COMPATIBLE[api].format(admin=admin)} }}; }};
        sinks:  {{ hook: {{ type = "http"; url = "http://127.0.0.1:9/"; }};
                   mails: {{ type = "queue"; global_ids = true; }}; }};
        routes: {{ r: {{ from = "api"; to = "{'hook' if api == 'later' else 'mails'}"; }}; }};''').start()
    own = d.port
    asks = [(port, *row) for row in rows_of(f"sources/{api}/*.c")]
    assert asks, "no row of this API was found"
    if api == "lmstfy":
        listed = LMSTFY_ADMIN.findall((TOP / "sources/lmstfy/lmstfy_admin.c").read_text())
        assert len(listed) > 8
        asks += [(admin, method, re.sub(r":\w+", "{}", path), "OPEN") for method, path in listed]
    for d.port, method, path, row in asks:
        path = path.replace("{*}", "nothing").replace("{}", "none")
        answers = [d.ask("POST" if method == "*" else method, path, None, bearer(role))[0]
                   for role in (None, *ROLES)]
        if row == "OPEN":
            assert len(set(answers)) == 1 and answers[0] != 403, (path, answers)
        else:
            wanted = [(wanted_of(row, role, False) or (200,))[0] for role in (None, *ROLES)]
            assert answers == wanted, (path, answers)
    d.port = own
    d.stop()


# ------------------------------------------------------------------ within a row

def put(d, id_, queue="mails"):
    assert d.ask("POST", f"/v1/queues/{queue}/jobs", b"secret",
                 {"delay-id": id_, "x-secret": "secret", **bearer("produce")})[0] == 201


def pull(d, queue="mails"):
    status, _, body = d.ask("POST", f"/v1/queues/{queue}/pull", None, bearer("consume"))
    assert status == 200, body
    return body["jobs"][0]["token"]


def change(d, method, path, role):
    status, _, body = d.ask(method, f"/v1/queues/mails/{path}", None, bearer(role))
    return status, body.get("error", body.get("was"))


def test_a_producer_sees_the_state_of_a_job_but_not_its_content(d):
    put(d, "a")
    d.ask("POST", "/v1/routes/hooks/jobs", b"secret",
          {"delay-id": "a", "deliver-after": "1h", "x-secret": "secret", **bearer("produce")})
    for path, reader in (("/v1/queues/mails/jobs/a", "consume"), ("/v1/routes/hooks/jobs/a", "admin")):
        status, _, seen = d.ask("GET", path, None, bearer("produce"))
        assert status == 200 and seen["id"] == "a" and seen["state"] in ("ready", "waiting")
        assert not {"key", "headers", "payload", "unreadable"} & set(seen) and "secret" not in str(seen)
        whole = d.ask("GET", path, None, bearer(reader))[2]
        assert whole["payload"] == "secret" and {**whole, **seen} == whole


def test_a_producer_deletes_a_pending_job_and_no_other(d):
    put(d, "a")
    assert change(d, "DELETE", "jobs/a", "produce") == (200, "waiting")
    put(d, "a")
    token = pull(d)
    assert change(d, "DELETE", "jobs/a", "produce") == (409, "in-flight")
    assert change(d, "DELETE", f"jobs/a?token={token}", "produce") == (403, "no-role")
    assert change(d, "POST", f"jobs/a/release?token={token}", "consume")[0] == 200
    assert d.ask("GET", "/v1/queues/mails/jobs/a", None, bearer("produce"))[2]["state"] == "dead"
    assert change(d, "DELETE", "jobs/a", "produce") == (409, "dead")
    assert change(d, "DELETE", "jobs/a", "consume") == (200, "dead")
    assert change(d, "DELETE", "jobs/a", "produce") == (404, "not-found")


@pytest.mark.parametrize("role", ["consume", "admin"])
def test_a_consumer_acknowledges_with_and_without_the_lease_token(d, role):
    for more in ("?token={}", ""):
        put(d, "a")
        assert change(d, "DELETE", "jobs/a" + more.format(pull(d)), role) == (200, "in-flight")


def test_without_tokens_everybody_may_do_everything(bench):
    d = bench.tarry(bench.redis().url, PARTS).start()
    put(d, "a")
    token = pull(d)
    assert d.ask("GET", "/v1/queues/mails/jobs/a")[2]["payload"] == "secret"
    assert change(d, "DELETE", f"jobs/a?token={token}", None) == (200, "in-flight")
    assert d.ask("GET", "/v1/queues/mails/jobs/a")[0] == 404
    d.stop()
