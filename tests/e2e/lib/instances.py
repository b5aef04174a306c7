# SPDX-License-Identifier: BSD-2-Clause
"""Several daemons on one Redis."""
from lib.servers import wait_for


class Instances:
    """self.all: the daemons, running or not."""

    def settle(self, count):
        wait_for(f"{count} instances to know each other",
                 lambda: all(d.metric("tarry_instances") == count for d in self.up), 30)

    @property
    def up(self):
        return [d for d in self.all if d.child]

    def owner(self):
        """Returns the daemon that owns the only bucket of the first route."""
        owner, = [d for d in self.up if d.metric("tarry_buckets_owned") == 1]
        return owner
