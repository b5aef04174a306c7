# SPDX-License-Identifier: BSD-2-Clause
"""Reads etc/openapi.yaml."""
import yaml

from lib.servers import TOP

METHODS = ("get", "put", "post", "delete")


class Strict(yaml.SafeLoader):
    """Rejects duplicate keys: the second one would hide the first."""

    def construct_mapping(self, node, deep=False):
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        twice = {str(key) for key in keys if keys.count(key) > 1}
        assert not twice, f"{node.start_mark}: {twice} twice"
        return super().construct_mapping(node, deep)


def openapi():
    return yaml.load((TOP / "etc/openapi.yaml").read_text(), Strict)
