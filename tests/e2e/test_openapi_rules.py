# SPDX-License-Identifier: BSD-2-Clause
"""etc/openapi.yaml without a network: it is complete and consistent, and generators make good clients of it. Strict
validators check the rest in test_openapi.py, and test_generated_clients.py runs the clients."""
import re

import pytest
import yaml

from lib.described import METHODS, openapi

DOCUMENT = openapi()
SCHEMAS = DOCUMENT["components"]["schemas"]
OPERATIONS = {operation["operationId"]: operation for path in DOCUMENT["paths"].values()
              for method, operation in path.items() if method in METHODS}
# A typing error such as an unquoted comma in a flow mapping makes a key of a part of a sentence.
KEYWORDS = {"$ref", "type", "format", "enum", "default", "description", "required", "properties", "items",
            "additionalProperties", "minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems", "pattern",
            "contentEncoding", "contentMediaType", "contentSchema", "examples"}
OF_PARAMETERS = {"name", "in", "required", "description", "schema", "example", "examples"}


def schemas_below(where, node):
    """Yields (where, schema) for each schema in a part of the document that is not a schema itself."""
    if isinstance(node, dict):
        for key, value in node.items():
            if key == "schema":
                yield from nested(f"{where}/schema", value)
            elif key not in ("example", "examples"):
                yield from schemas_below(f"{where}/{key}", value)
    elif isinstance(node, list):
        for value in node:
            yield from schemas_below(where, value)


def nested(where, schema):
    """Yields (where, schema) for a schema and all schemas in it."""
    yield where, schema
    for name, inner in schema.get("properties", {}).items():
        yield from nested(f"{where}/{name}", inner)
    for key in ("items", "additionalProperties", "contentSchema"):
        if isinstance(schema.get(key), dict):
            yield from nested(f"{where}/{key}", schema[key])


ALL = [pair for name, schema in SCHEMAS.items() for pair in nested(name, schema)]
ALL += schemas_below("paths", DOCUMENT["paths"])
ALL += [pair for kind in ("parameters", "requestBodies", "headers", "responses")
        for pair in schemas_below(kind, DOCUMENT["components"][kind])]


def check(rule, among=ALL):
    """Asserts that the rule returns nothing for each (where, schema)."""
    assert [(where, found) for where, schema in among if (found := rule(schema))] == []


def test_a_schema_has_only_known_keywords():
    check(lambda schema: schema.keys() - KEYWORDS)
    assert len(ALL) > 500


def test_a_parameter_has_only_known_keywords():
    parameters = list(DOCUMENT["components"]["parameters"].items())
    parameters += [(operation_id, p) for operation_id, operation in OPERATIONS.items()
                   for p in operation.get("parameters", []) if "$ref" not in p]
    check(lambda parameter: parameter.keys() - OF_PARAMETERS, parameters)
    check(lambda parameter: {"name", "in", "schema"} - parameter.keys(), parameters)


def test_each_reference_leads_to_a_component_and_each_component_is_used():
    text = yaml.safe_dump(DOCUMENT)
    used = set(re.findall(r"#/components/(\w+/\w+)", text))
    assert text.count("$ref:") == len(re.findall(r"\$ref: '?#/components/\w+/\w+'?$", text, re.M))
    defined = {f"{kind}/{name}" for kind, of_kind in DOCUMENT["components"].items() for name in of_kind
               if kind != "securitySchemes"}
    assert used == defined


def test_a_required_member_is_described():
    check(lambda schema: set(schema.get("required", [])) - schema.get("properties", {}).keys())


def test_each_operation_has_its_own_verb_as_a_name_a_tag_and_a_summary():
    count = sum(method in METHODS for path in DOCUMENT["paths"].values() for method in path)
    assert len(OPERATIONS) == count, "two operations have the same operationId"
    tags = {tag["name"] for tag in DOCUMENT["tags"]}
    verbs = ("publish|replace|get|cancel|list|replay|drop|resume|pause|drain|rewind|tap|explain|move|run|reload|clear|pull|"
             "ack|release|touch|peek|delete|respawn")
    for name, operation in OPERATIONS.items():
        assert re.fullmatch(rf"({verbs})([A-Z][a-z]+)+", name), name
        assert len(operation["tags"]) == 1 and operation["tags"][0] in tags, name
        assert re.fullmatch(r"[A-Z`].*\.", operation["summary"]), name


def test_the_path_parameters_of_an_operation_are_those_of_its_path():
    def named(parameter):
        return DOCUMENT["components"]["parameters"][parameter["$ref"].split("/")[-1]] if "$ref" in parameter else parameter
    for path, item in DOCUMENT["paths"].items():
        shared = item.get("parameters", [])
        for method in METHODS:
            if method in item:
                all_of_it = [named(p) for p in shared + item[method].get("parameters", [])]
                names = [p["name"] for p in all_of_it if p["in"] == "path"]
                assert sorted(names) == sorted(re.findall(r"\{(\w+)\}", path)), (method, path)
                assert all(p["required"] for p in all_of_it if p["in"] == "path"), (method, path)


# --- what generators require: a client in each language compiles, and its names are those chosen here

def test_an_object_has_a_name():
    """Otherwise a generator derives one, such as ListJobs200Response or InlineObject3."""
    check(lambda schema: "properties" in schema and "no name",
          [(where, schema) for where, schema in ALL if where not in SCHEMAS])


def test_no_schema_is_composed():
    """Clients in Go do not compile with oneOf of nullable types, and members of allOf lose null."""
    check(lambda schema: schema.keys() & {"oneOf", "anyOf", "allOf", "const", "not", "if"})


def test_an_integer_has_64_bits_or_a_maximum():
    """Generators use 32 bits otherwise, and ms since 1970 do not fit."""
    check(lambda schema: "integer" in schema.get("type", []) and schema.get("format") != "int64"
          and schema.get("maximum", 2**31) >= 2**31 and "32 bits")


def test_an_enumeration_has_the_type_string():
    check(lambda schema: "enum" in schema and schema.get("type") != "string")


def test_all_successful_answers_of_an_operation_have_the_same_schema():
    """A generated function returns one type."""
    for name, operation in OPERATIONS.items():
        kinds = set()
        for status, answer in operation["responses"].items():
            if "$ref" in answer:
                answer = DOCUMENT["components"]["responses"][answer["$ref"].split("/")[-1]]
            if status.startswith("2") and "application/json" in answer.get("content", {}):
                kinds.add(answer["content"]["application/json"]["schema"]["$ref"])
        assert len(kinds) <= 1, name


@pytest.mark.parametrize("name", [name for name, operation in OPERATIONS.items() if name.startswith("publish")])
def test_the_first_type_of_a_payload_is_json(name):
    """Generated clients send the first type."""
    body = OPERATIONS[name]["requestBody"]
    body = DOCUMENT["components"]["requestBodies"][body["$ref"].split("/")[-1]]
    assert next(iter(body["content"])) == "application/json"
