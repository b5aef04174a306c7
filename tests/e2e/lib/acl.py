# SPDX-License-Identifier: BSD-2-Clause
"""The Redis users with minimal rights, as the comments of etc/tarry.conf list them."""
from lib.servers import TOP

PASSWORD = "least-pw"


def users():
    """Returns [rules for Redis, rules for a sentinel]. Each is a list of words, without the user's name."""
    found = []
    for line in (TOP / "etc/tarry.conf").read_text().splitlines():
        if line.startswith("#   user tarry "):
            found.append(line.split()[3:])
        elif line.startswith(("#     +", "#     &")):
            found[-1] += line.split()[1:]
    redis, sentinel = ([f">{PASSWORD}" if word == ">PASSWORD" else word for word in rules]
                       for rules in found)
    return redis, sentinel


def commands(rules):
    return {word[1:].partition("|")[0] for word in rules if word.startswith("+")}
